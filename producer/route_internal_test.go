package producer

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
	"github.com/redis-stream-coordinator/rsc/core/routing"
)

// transportFunc is a Transport made of a function.
type transportFunc func(ctx context.Context) (*protocol.Routing, error)

func (f transportFunc) Routing(ctx context.Context) (*protocol.Routing, error) { return f(ctx) }

func routingOf(shards int, lease time.Duration) *protocol.Routing {
	r := &protocol.Routing{StreamPrefix: "orders", ConsumerGroup: "billing", ShardCount: shards, MetadataVersion: 1, RoutingLeaseMs: lease.Milliseconds()}
	for i := range shards {
		r.Shards = append(r.Shards, protocol.RouteShard{ShardIndex: protocol.ShardIndex(i), StreamKey: routing.StreamKey("orders", i)})
	}
	return r
}

func TestAnswersThatCannotBeUsed(t *testing.T) {
	tests := []struct {
		name   string
		change func(*protocol.Routing)
		words  string
	}{
		{"another stream", func(r *protocol.Routing) { r.StreamPrefix = "other" }, `stream "other"`},
		{"another group", func(r *protocol.Routing) { r.ConsumerGroup = "other" }, `group "other"`},
		{"negative count", func(r *protocol.Routing) { r.ShardCount = -1 }, "shardCount: is -1"},
		{"absurd count", func(r *protocol.Routing) { r.ShardCount = protocol.MaxShards + 1 }, "shardCount: is 65537"},
		{"shards missing", func(r *protocol.Routing) { r.Shards = r.Shards[:2] }, "2 entries for a shardCount of 3"},
		{"index twice", func(r *protocol.Routing) { r.Shards[2] = r.Shards[0] }, "index 0 is there twice"},
		{"index out of range", func(r *protocol.Routing) { r.Shards[2].ShardIndex = 3 }, "index 3 does not exist"},
		{"negative index", func(r *protocol.Routing) { r.Shards[2].ShardIndex = -1 }, "index -1 does not exist"},
		{"another key", func(r *protocol.Routing) { r.Shards[1].StreamKey = "{orders}:1" }, `must be "orders:1"`},
		{"no key", func(r *protocol.Routing) { r.Shards[1].StreamKey = "" }, `must be "orders:1"`},
		{"lease too short", func(r *protocol.Routing) { r.RoutingLeaseMs = 99 }, "routingLeaseMs: is 99"},
		{"negative lease", func(r *protocol.Routing) { r.RoutingLeaseMs = -1 }, "routingLeaseMs: is -1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := routingOf(3, time.Minute)
			tt.change(r)
			if _, err := newSnapshot(r, "orders", "billing", time.Now()); err == nil || !strings.Contains(err.Error(), tt.words) {
				t.Errorf("got %v, want %q", err, tt.words)
			}
		})
	}
	if _, err := newSnapshot(nil, "orders", "billing", time.Now()); err == nil {
		t.Error("nothing was accepted")
	}
}

func TestLeaseOfAnAnswer(t *testing.T) {
	now := time.Now()
	for ms, want := range map[int64]time.Duration{
		0: 30 * time.Second, 100: 100 * time.Millisecond, 45_000: 45 * time.Second, 1 << 62: 24 * time.Hour,
	} {
		r := routingOf(1, 0)
		r.RoutingLeaseMs = ms
		s, err := newSnapshot(r, "orders", "billing", now)
		if err != nil {
			t.Fatal(err)
		}
		if s.lease != want || !s.ends.Equal(now.Add(want)) {
			t.Errorf("routingLeaseMs %d: lease %s until %s", ms, s.lease, s.ends)
		}
	}
}

// The lease ends when either clock says so: the monotonic one stands still while
// the machine is suspended, the wall clock can be set back.
func TestEitherClockEndsTheLease(t *testing.T) {
	requested := time.Now()
	s, err := newSnapshot(routingOf(1, 10*time.Second), "orders", "billing", requested)
	if err != nil {
		t.Fatal(err)
	}
	if !s.valid(requested) || !s.valid(requested.Add(10*time.Second-1)) {
		t.Error("the lease does not hold while it should")
	}
	if s.valid(requested.Add(10 * time.Second)) {
		t.Error("the lease holds at its end")
	}
	suspended, setBack := *s, *s
	suspended.endsWall = suspended.endsWall.Add(-time.Hour) // the wall clock went on by an hour
	if suspended.valid(requested) {
		t.Error("the lease survives a suspension")
	}
	setBack.endsWall = setBack.endsWall.Add(time.Hour) // the wall clock was set back
	if setBack.valid(requested.Add(10 * time.Second)) {
		t.Error("the lease survives a wall clock that was set back")
	}
}

type replyError string

func (e replyError) Error() string { return string(e) }
func (replyError) RedisError()     {}

func TestJudge(t *testing.T) {
	dial := &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	tests := []struct {
		name    string
		ctx     context.Context //nolint:containedctx // the case
		err     error
		written bool
		kind    kind
		code    *PublishError
	}{
		{"missing", nil, redis.Nil, true, missing, ErrShardMissing},
		{"dial", nil, dial, false, passing, ErrRedisUnavailable},
		{"pool", nil, redis.ErrPoolTimeout, false, passing, ErrRedisUnavailable},
		{"end of a connection before the command", nil, io.EOF, false, passing, ErrRedisUnavailable},
		{"end of a connection after it", nil, io.EOF, true, uncertain, ErrOutcomeUnknown},
		{"a dial error after the command cannot be", nil, dial, true, uncertain, ErrOutcomeUnknown},
		{"canceled before", ended, context.Canceled, false, refused, ErrCanceled},
		{"canceled after", ended, context.Canceled, true, uncertain, ErrOutcomeUnknown},
		{"a dial timeout is not the caller's", nil, context.DeadlineExceeded, false, passing, ErrRedisUnavailable},
		{"closed before", nil, redis.ErrClosed, false, refused, ErrClosed},
		{"closed after", nil, redis.ErrClosed, true, uncertain, ErrOutcomeUnknown},
		{"password", nil, replyError("WRONGPASS invalid"), false, refused, ErrRedisRefused},
		{"loading during the handshake", nil, replyError("LOADING wait"), false, passing, ErrRedisRefused},
		{"a proxy during the handshake", nil, replyError("no upstream host"), false, passing, ErrRedisUnavailable},
		{"a proxy", nil, replyError("no upstream host"), true, uncertain, ErrOutcomeUnknown},
		{"an empty error", nil, replyError(""), true, uncertain, ErrOutcomeUnknown},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ctx := tt.ctx
			if ctx == nil {
				ctx = t.Context()
			}
			v := judge(ctx, tt.err, tt.written)
			if v.kind != tt.kind || !errors.Is(v.err, tt.code) {
				t.Errorf("judged as %d, %v", v.kind, v.err)
			}
		})
	}
}

// A command that was not written and has no error of its own takes the
// pipeline's; one that was written and has neither id nor error is in doubt.
func TestTake(t *testing.T) {
	broken := errors.New("broken")
	tests := []struct {
		name    string
		written bool
		own     error
		val     string
		whole   error
		want    kind
	}{
		{"answered before the pipeline broke", true, broken, "1-1", broken, stored},
		{"refused before the pipeline broke", true, replyError("WRONGTYPE x"), "", broken, refused},
		{"no connection could be authenticated", false, nil, "", replyError("WRONGPASS x"), refused},
		{"written, and nothing is said of it", true, nil, "", replyError("OOM of another command"), uncertain},
		{"nothing is said at all", false, nil, "", nil, passing},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := &entry{written: tt.written}
			cmd := redis.NewStringCmd(t.Context())
			cmd.SetVal(tt.val)
			cmd.SetErr(tt.own)
			e.take(t.Context(), cmd, tt.whole)
			if e.verdict.kind != tt.want || e.doubt != (tt.want == uncertain) {
				t.Errorf("judged as %d, %v; doubt is %t", e.verdict.kind, e.verdict.err, e.doubt)
			}
		})
	}
}

func TestCompleteAddr(t *testing.T) {
	for _, tt := range []struct{ addr, reachedAt, want string }{
		{"10.0.0.1:7000", "10.0.0.2:7001", "10.0.0.1:7000"},
		{":7000", "10.0.0.2:7001", "10.0.0.2:7000"},
		{"?:7000", "[::1]:7001", "[::1]:7000"},
		{"redis-1.local:7000", "10.0.0.2:7001", "redis-1.local:7000"},
		{"fe80::1:7000", "10.0.0.2:7001", "[fe80::1]:7000"},
		{"[fe80::1]:7000", "10.0.0.2:7001", "[fe80::1]:7000"},
		{"nonsense", "10.0.0.2:7001", "nonsense"},
		{":7000", "/run/redis.sock", ":7000"},
	} {
		if got := completeAddr(tt.addr, tt.reachedAt); got != tt.want {
			t.Errorf("%q from %q is %q, want %q", tt.addr, tt.reachedAt, got, tt.want)
		}
	}
}

func TestCut(t *testing.T) {
	l := &lane{p: &Producer{cfg: Config{PipelineMessages: 3, PipelineBytes: 100}}}
	for _, tt := range []struct {
		sizes []int
		want  int
	}{
		{[]int{1}, 1},
		{[]int{1, 1, 1, 1}, 3},
		{[]int{60, 40, 1}, 2},
		{[]int{60, 41}, 1},
		{[]int{500, 1}, 1},
		{[]int{1, 500}, 1},
	} {
		var entries []*entry
		for _, size := range tt.sizes {
			entries = append(entries, &entry{size: size})
		}
		if got := l.cut(entries); got != tt.want {
			t.Errorf("sizes %v: a part of %d, want %d", tt.sizes, got, tt.want)
		}
	}
}
