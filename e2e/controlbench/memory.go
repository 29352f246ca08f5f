package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis-stream-coordinator/rsc/adapters/http/httpload"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

const (
	commandPackage = "github.com/redis-stream-coordinator/rsc/coordinator/cmd/rsc"
	buildTimeout   = 4 * time.Minute
	startTimeout   = 60 * time.Second
	// adminPassword is the default, which is taken on loopback only.
	adminUser, adminPassword = "admin", "password"
)

// memoryStage has the real command, built from here. Its memory is what the system
// says that its process has in use.
type memoryStage struct {
	b      *bench
	folder string
	rsc    string
	n      int
}

func openMemory(ctx context.Context, b *bench) (_ stage, err error) {
	s := &memoryStage{b: b}
	if s.folder, err = os.MkdirTemp("", "controlbench"); err != nil {
		return nil, err
	}
	s.rsc = filepath.Join(s.folder, "rsc")
	ctx, done := context.WithTimeout(ctx, buildTimeout)
	defer done()
	build := exec.CommandContext(ctx, "go", "build", "-o", s.rsc, commandPackage)
	if said, err := build.CombinedOutput(); err != nil {
		return nil, errors.Join(fmt.Errorf("build the command, which works in the workspace of the repository only: %w\n%s", err, said), s.close(ctx))
	}
	return s, nil
}

func (s *memoryStage) close(context.Context) error { return os.RemoveAll(s.folder) }

func (s *memoryStage) round(ctx context.Context, _ int) (_ measured, err error) {
	s.n++
	p, err := s.start(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	m := measured{}
	if m["empty"], err = p.megabytes(); err != nil {
		return nil, err
	}
	target, err := httpload.NewTarget(p.url, adminUser, adminPassword)
	if err != nil {
		return nil, err
	}
	if err := createStream(ctx, p.url, s.b.memoryShards); err != nil {
		return nil, err
	}
	fleet := httpload.NewFleet("member-", s.b.memoryMembers)
	beat := httpload.NewHTTPBeat(target, stream, group, answerTimeout)
	defer beat.Close()
	if err := fleet.Settle(ctx, s.b.memoryShards, settleAtOnce, beat.Beat); err != nil {
		return nil, err
	}
	requests := fleet.Requests()
	if _, err := s.b.fire(ctx, target, requests); err != nil {
		return nil, err
	}
	if m["members"], err = p.megabytes(); err != nil {
		return nil, err
	}
	m["all of them waiting"], err = s.waiting(ctx, p, fleet, beat.Beat)
	m["each waiting member"] = (m["all of them waiting"] - m["members"]) * 1000 / float64(s.b.memoryMembers)
	return m, err
}

// waiting returns the memory with a heartbeat of each member held.
func (s *memoryStage) waiting(ctx context.Context, p *process, fleet *httpload.Fleet, beat httpload.Beat) (float64, error) {
	life, end := context.WithCancel(ctx)
	defer end()
	var sent atomic.Int64
	ended := make(chan error, 1)
	go func() {
		ended <- fleet.Live(life, holdTime, holdTime, func(ctx context.Context, q *protocol.Heartbeat) (*protocol.HeartbeatResponse, error) {
			sent.Add(1)
			return beat(ctx, q)
		})
	}()
	// From then on each is held nearly all the time.
	for sent.Load() < 2*int64(s.b.memoryMembers) {
		select {
		case err := <-ended:
			return 0, errors.Join(errors.New("the members do not live"), err)
		case <-time.After(time.Millisecond):
		}
	}
	n, err := p.megabytes()
	end()
	return n, errors.Join(err, <-ended)
}

func createStream(ctx context.Context, url string, shards int) error {
	body, err := json.Marshal(protocol.CreateStream{InitialShardCount: &shards, RequestedBy: "controlbench"})
	if err != nil {
		return err
	}
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/coord/v1/streams/"+stream, bytes.NewReader(body))
	if err != nil {
		return err
	}
	q.SetBasicAuth(adminUser, adminPassword)
	q.Header.Set("Content-Type", "application/json")
	r, err := http.DefaultClient.Do(q)
	if err != nil {
		return err
	}
	defer func() { _ = r.Body.Close() }()
	if r.StatusCode != http.StatusCreated {
		return fmt.Errorf("create the stream: %s", r.Status)
	}
	return nil
}

// process is a coordinator in a process of its own.
type process struct {
	cmd   *exec.Cmd
	url   string
	ended chan struct{}
}

var listens = regexp.MustCompile(`"url":"(http://[^"]+)"`)

func (s *memoryStage) start(ctx context.Context) (*process, error) {
	// Not bound to ctx: it is stopped by stop.
	cmd := exec.CommandContext(context.WithoutCancel(ctx), s.rsc, "server", "--log-format", "json", "--address", "127.0.0.1:0",
		"--redis", "redis://"+s.b.redis.addr, "--set", fmt.Sprintf("coordinator.store.key-prefix=process-%d", s.n),
		"--set", "coordinator.limits.max-shards="+strconv.Itoa(s.b.memoryShards), "--set", "coordinator.streams.provisioning-enabled=false",
		// All are to join in time also where the machine has other things to do.
		"--set", "coordinator.member-lease-ttl=60s", "--set", "coordinator.rebalance-timeout=2m")
	logs, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, ended: make(chan struct{})}
	found := make(chan string, 1)
	go func() {
		defer close(p.ended)
		for lines := bufio.NewScanner(logs); lines.Scan(); {
			if m := listens.FindStringSubmatch(lines.Text()); m != nil {
				found <- m[1]
			}
		}
		_ = cmd.Wait() // it says that it was ended
	}()
	select {
	case p.url = <-found:
		return p, nil
	case <-p.ended:
		return nil, errors.New("the coordinator ended at its start")
	case <-time.After(startTimeout):
		return nil, errors.Join(errors.New("the coordinator does not start"), p.stop())
	}
}

func (p *process) stop() error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	select {
	case <-p.ended:
		return nil
	case <-time.After(stopTimeout):
	}
	_ = p.cmd.Process.Kill()
	<-p.ended
	return errors.New("the coordinator did not end in time")
}

// megabytes is the memory that the process has in use (VmRSS).
func (p *process) megabytes() (float64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0, fmt.Errorf("the memory of a process can be read on Linux only: %w", err)
	}
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kb, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")), 64)
			return kb * 1024 / 1e6, err
		}
	}
	return 0, errors.New("the system does not say how much memory the coordinator has in use")
}
