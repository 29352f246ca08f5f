package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redis-stream-coordinator/rsc/consumer"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// victimEnv, when set, makes this command the member that a crash case kills. It
// holds a victimConfig.
const victimEnv = "STREAMBENCH_VICTIM"

const (
	crashShards  = 16
	crashPayload = 200
	// crashSlowness is how many times fewer records a crash case has: its
	// verdict matters, not its speed.
	crashSlowness = 4
	victimID      = "victim"
	survivorID    = "survivor"
)

// crashTimings keep the wait for the dead member's lease short.
var crashTimings = protocol.Timings{HeartbeatInterval: 300 * time.Millisecond, Lease: 3 * time.Second, RebalanceTimeout: 5 * time.Second}

// victimConfig is what a victim has to know.
type victimConfig struct {
	Coordinator, Stream string
	Redis               []string
	Cluster             bool
}

// victim consumes until it is killed. It writes the number of each record to its
// standard output before the record can be acknowledged, so that what it handled
// is known whenever it dies.
func victim(config string) error {
	var v victimConfig
	if err := json.Unmarshal([]byte(config), &v); err != nil {
		return err
	}
	c, err := consumer.New(consumer.Config{
		Coordinators: []string{v.Coordinator}, Stream: v.Stream, Group: group, MemberID: victimID,
		Redis:  redis.UniversalOptions{Addrs: v.Redis, IsClusterMode: v.Cluster},
		Logger: slog.New(slog.DiscardHandler),
		Handler: func(_ context.Context, r consumer.Record) error {
			var number [indexBytes]byte
			putIndex(number[:], indexOf(r.Values[payloadField]))
			_, err := os.Stdout.Write(number[:])
			return err
		},
	})
	if err != nil {
		return err
	}
	return c.Run(context.Background())
}

func crashCase(s settings) benchCase {
	return benchCase{
		name: fmt.Sprintf("kill -9 of one of two members, %d shards", crashShards), unit: seconds, crash: true,
		candidates: []candidate{{"rsc", func(ctx context.Context, b *bench) (sample, error) {
			return b.crash(ctx, recordsFor(s, crashPayload, crashSlowness))
		}}},
	}
}

// crash lets two members read a stream that is being filled, kills one of them,
// and takes the time from then until all is handled and acknowledged. Most of it
// is the rest of the dead member's lease.
func (b *bench) crash(ctx context.Context, records int) (_ sample, err error) {
	coord, err := newCoordinator(ctx, crashTimings)
	if err != nil {
		return sample{}, err
	}
	defer func() { err = errors.Join(err, coord.close(ctx)) }()
	s, err := b.newStream(ctx, crashShards, records, crashPayload)
	if err != nil {
		return sample{}, err
	}
	defer func() { err = errors.Join(err, s.remove(context.WithoutCancel(ctx))) }()
	if err := coord.declare(ctx, s.prefix, crashShards); err != nil {
		return sample{}, err
	}
	url, stopServing, err := coord.serve(ctx)
	if err != nil {
		return sample{}, err
	}
	defer func() { err = errors.Join(err, stopServing()) }()

	l := newLedger(records, keysPerRun, nil)
	v, err := startVictim(ctx, victimConfig{Coordinator: url, Stream: s.prefix, Redis: b.redis.options().Addrs, Cluster: b.cluster}, func(i int) { l.handle(i, nil) })
	if err != nil {
		return sample{}, err
	}
	defer v.kill()
	cfg := rscConfig(s, 0, func(i int) { l.handle(i, nil) })
	cfg.Transport, cfg.MemberID = line{coord, s.prefix, group}, survivorID
	stop, err := startConsumer(ctx, cfg)
	if err != nil {
		return sample{}, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	if err := coord.awaitHalves(ctx, s.prefix); err != nil {
		return sample{}, err
	}

	var filling sync.WaitGroup
	var filled error
	filling.Go(func() { filled = s.fill(ctx, plainLayout) })
	if err := awaitCount(ctx, l, int64(records/3)); err != nil {
		filling.Wait()
		return sample{}, errors.Join(err, filled)
	}
	before := takeUsage()
	v.kill()
	filling.Wait()
	if filled != nil {
		return sample{}, filled
	}
	err = awaitHandled(ctx, l)
	if err == nil {
		err = s.awaitAcknowledged(ctx)
	}
	if errors.Is(err, errStalled) {
		err = nil
	}
	took, cost := takeUsage().since(before, records)
	return sample{value: took.Seconds(), cost: cost, verdict: l.verdict()}, err
}

// awaitCount waits until n records were handled.
func awaitCount(ctx context.Context, l *ledger, n int64) error {
	pause := time.NewTicker(pollPause)
	defer pause.Stop()
	for deadline := time.Now().Add(stall); l.handled.Load() < n; <-pause.C {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%w: %d of %d records were handled", errStalled, l.handled.Load(), n)
		}
	}
	return nil
}

// awaitHalves waits until both members hold half of the shards each.
func (c *coordinator) awaitHalves(ctx context.Context, stream string) error {
	pause := time.NewTicker(10 * time.Millisecond)
	defer pause.Stop()
	for deadline := time.Now().Add(stall); ; <-pause.C {
		// Until a member has joined there is no group to ask about.
		a, err := c.Assignments(ctx, stream, group)
		if err == nil && len(a.CurrentAssignments[victimID]) == crashShards/2 && len(a.CurrentAssignments[survivorID]) == crashShards/2 {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if time.Now().After(deadline) {
			return errors.Join(errors.New("two members do not get half of the shards each"), err)
		}
	}
}

// serve lets members of other processes send heartbeats.
func (c *coordinator) serve(ctx context.Context) (url string, stop func() error, err error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /coord/v1/streams/{stream}/groups/{group}/members/{member}/heartbeat", func(w http.ResponseWriter, r *http.Request) {
		var q protocol.Heartbeat
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		// Who does not get the answer asks again.
		_ = json.NewEncoder(w).Encode(c.Heartbeat(r.Context(), r.PathValue("stream"), r.PathValue("group"), &q))
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: stall}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(listener) })
	return "http://" + listener.Addr().String(), func() error {
		err := server.Close()
		serving.Wait()
		return err
	}, nil
}

// victimProcess is a member in a process of its own.
type victimProcess struct {
	cmd     *exec.Cmd
	reading sync.WaitGroup
	once    sync.Once
}

// startVictim starts this command again as a victim; handled is called with
// what it handles.
func startVictim(ctx context.Context, config victimConfig, handled func(i int)) (*victimProcess, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(config)
	if err != nil {
		return nil, err
	}
	v := &victimProcess{cmd: exec.CommandContext(context.WithoutCancel(ctx), self)}
	v.cmd.Env = append(os.Environ(), victimEnv+"="+string(text))
	v.cmd.Stderr = os.Stderr
	numbers, err := v.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := v.cmd.Start(); err != nil {
		return nil, err
	}
	v.reading.Go(func() {
		from := bufio.NewReader(numbers)
		var number [indexBytes]byte
		for {
			if _, err := io.ReadFull(from, number[:]); err != nil {
				return // it ended
			}
			handled(int(binary.BigEndian.Uint64(number[:])))
		}
	})
	return v, nil
}

// kill ends the process as kill -9 does, and returns when all that it said was
// taken in.
func (v *victimProcess) kill() {
	v.once.Do(func() {
		_ = v.cmd.Process.Kill()
		v.reading.Wait()
		// It was killed, and says so.
		_ = v.cmd.Wait()
	})
}
