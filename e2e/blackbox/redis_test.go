package blackbox

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"syscall"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

const redisTimeout = 20 * time.Second

// redisServer is a redis-server of a test, on a free port of 127.0.0.1 with a
// folder of its own.
type redisServer struct {
	t    *testing.T
	url  string
	args []string
	proc *process
	// client looks into it.
	client *goredis.Client
}

// startRedis runs a redis-server that forgets everything when it ends, unless
// args say otherwise.
func startRedis(t *testing.T, args ...string) *redisServer {
	t.Helper()
	need(t, "redis-server")
	port := freePort(t)
	addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	r := &redisServer{
		t:   t,
		url: "redis://" + addr,
		args: append([]string{
			"--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--dir", t.TempDir(),
			"--save", "", "--appendonly", "no", "--daemonize", "no", "--logfile", "",
		}, args...),
		client: goredis.NewClient(&goredis.Options{Addr: addr, MaxRetries: -1}),
	}
	t.Cleanup(func() {
		if err := r.client.Close(); err != nil {
			t.Error(err)
		}
	})
	r.start()
	return r
}

// start runs the server and waits until it answers. It may be called again
// after kill.
func (r *redisServer) start() {
	r.t.Helper()
	stdout := newFile(r.t, "redis.log")
	r.proc = start(r.t, "redis-server", streams{stdout: stdout}, "redis-server", r.args...)
	eventually(r.t, redisTimeout, "redis-server answers", func() bool {
		if !r.proc.runs() {
			r.t.Fatalf("redis-server ended: %s", contents(r.t, stdout))
		}
		ctx, done := context.WithTimeout(r.t.Context(), time.Second)
		defer done()
		return r.client.Ping(ctx).Err() == nil
	})
}

// pause freezes the server, resume lets it go on.
func (r *redisServer) pause()  { r.t.Helper(); r.proc.signal(syscall.SIGSTOP) }
func (r *redisServer) resume() { r.t.Helper(); r.proc.signal(syscall.SIGCONT) }

// kill ends the server as kill -9 does.
func (r *redisServer) kill() { r.proc.kill() }

// stored returns the records of all shards of the stream together, by payload,
// with how often each is stored.
func (r *redisServer) stored(shards int) map[string]int {
	r.t.Helper()
	payloads := map[string]int{}
	for shard := range shards {
		records, err := r.client.XRange(r.t.Context(), shardKey(shard), "-", "+").Result()
		if err != nil {
			r.t.Fatal(err)
		}
		for _, record := range records {
			payload, ok := record.Values["payload"].(string)
			if !ok {
				r.t.Fatalf("%s: record %s has no payload: %v", shardKey(shard), record.ID, record.Values)
			}
			payloads[payload]++
		}
	}
	return payloads
}

// length returns how many records the shards of the stream hold together.
func (r *redisServer) length(shards int) int {
	r.t.Helper()
	sum := 0
	for shard := range shards {
		n, err := r.client.XLen(r.t.Context(), shardKey(shard)).Result()
		if err != nil {
			r.t.Fatal(err)
		}
		sum += int(n)
	}
	return sum
}

// unacknowledged returns how many records of the stream the group has been
// given or is still to be given, and has not acknowledged, as Redis counts them.
func (r *redisServer) unacknowledged(shards int) int64 {
	r.t.Helper()
	var left int64
	for shard := range shards {
		groups, err := r.client.XInfoGroups(r.t.Context(), shardKey(shard)).Result()
		if err != nil {
			r.t.Fatal(err)
		}
		for _, g := range groups {
			if g.Name == group {
				left += g.Pending + g.Lag
			}
		}
	}
	return left
}

func shardKey(shard int) string { return fmt.Sprintf("%s:%d", stream, shard) }

// freePort returns a port that nothing listened on a moment ago.
func freePort(t *testing.T) int {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	addr, ok := l.Addr().(*net.TCPAddr)
	if !ok {
		t.Fatalf("no TCP address: %v", l.Addr())
	}
	return addr.Port
}
