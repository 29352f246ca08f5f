package member

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/internal/rules"
	"github.com/redis-stream-coordinator/rsc/core/internal/scenario"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// world plays one member and the coordinator that a story puts against it.
type world struct {
	rules rules.Set
	state State
	mono  time.Duration
	// skew is what the wall clock has gone beyond the monotonic one.
	skew time.Duration
	ids  int
	wake time.Duration
	// sent are the requests, numbered from 1 in the stories.
	sent []*protocol.Heartbeat
	// lives are the incarnations in the order of their appearance.
	lives []string
}

var epochOfStories = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func newWorld(off rules.Set) *world { return &world{rules: off} }

func (w *world) do(t *testing.T, c scenario.Cmd) string {
	t.Helper()
	if at := c.Str("t", ""); at != "" {
		next := duration(t, at)
		if next < w.mono {
			t.Fatalf("%s: time goes back", c.Pos)
		}
		w.mono = next
	}
	switch c.Name {
	case "member":
		s, err := New(Config{
			MemberID: c.Str("id", "a"), MaxConcurrency: 4, MaxWait: duration(t, c.Str("maxwait", "0s")),
		})
		if err != nil {
			return "error: " + err.Error()
		}
		w.state = s
		return w.apply(t, Tick{})
	case "tick":
		return w.apply(t, Tick{})
	case "run":
		return w.run(t, duration(t, c.Str("to", "")))
	case "wall":
		w.skew += duration(t, c.Str("jump", ""))
		return w.apply(t, Tick{})
	case "answer":
		return w.apply(t, Answer{w.response(t, c)})
	case "fail":
		return w.apply(t, Failed{w.request(t, c).RequestID})
	case "release":
		return w.apply(t, Released{Shard: protocol.ShardIndex(c.Int(t, "s", 0)), Token: protocol.Epoch(c.Int(t, "token", 0))})
	case "leave":
		return w.apply(t, Leave{Within: duration(t, c.Str("within", "30s"))})
	case "progress":
		return w.apply(t, w.progress(t, c))
	case "show":
		return w.show()
	}
	t.Fatalf("%s: unknown command %s", c.Pos, c.Name)
	return ""
}

func duration(t *testing.T, s string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// request returns the request that a command speaks of, the latest by default.
func (w *world) request(t *testing.T, c scenario.Cmd) *protocol.Heartbeat {
	t.Helper()
	n := c.Int(t, "to", int64(len(w.sent)))
	if n < 1 || int(n) > len(w.sent) {
		t.Fatalf("%s: there is no request %d", c.Pos, n)
	}
	return w.sent[n-1]
}

func (w *world) response(t *testing.T, c scenario.Cmd) *protocol.HeartbeatResponse {
	t.Helper()
	q := w.request(t, c)
	status := protocol.Status(c.Str("status", "OK"))
	timings := protocol.DefaultTimings()
	timings.Lease = duration(t, c.Str("lease", "15s"))
	timings.HeartbeatInterval = duration(t, c.Str("interval", "3s"))
	timings.RebalanceTimeout = duration(t, c.Str("rt", "60s"))
	r := protocol.NewHeartbeatResponse(q, status, strings.ReplaceAll(c.Str("reason", ""), "_", " "), timings)
	r.MemberEpoch = protocol.Epoch(c.Int(t, "e", int64(q.MemberEpoch)))
	r.MetadataVersion = c.Int(t, "v", q.MetadataVersion)
	for _, s := range c.List("shards") {
		shard, token, _ := strings.Cut(s, "@")
		r.Assignment.AssignedShards = append(r.Assignment.AssignedShards,
			protocol.AssignedShard{Shard: protocol.ShardIndex(number(t, shard)), Epoch: protocol.Epoch(number(t, token))})
	}
	for _, s := range c.List("pending") {
		r.Assignment.PendingShards = append(r.Assignment.PendingShards, protocol.ShardIndex(number(t, s)))
	}
	return &r
}

func number(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func (w *world) progress(t *testing.T, c scenario.Cmd) Progress {
	t.Helper()
	p := Progress{Available: int(c.Int(t, "idle", 4))}
	for _, s := range c.List("shards") {
		shard, missing := strings.CutSuffix(s, "!")
		p.Rows = append(p.Rows, protocol.ShardProgress{Shard: protocol.ShardIndex(number(t, shard)), Missing: missing})
	}
	return p
}

// run lets time pass, waking the member whenever it asked to be woken.
func (w *world) run(t *testing.T, to time.Duration) string {
	t.Helper()
	var out []string
	for w.wake <= to {
		if w.wake == w.mono && len(out) > 0 {
			t.Fatalf("the member asks to be woken at %s again and again", w.wake)
		}
		w.mono = w.wake
		out = append(out, "at "+w.mono.String(), w.apply(t, Tick{}))
		if w.state.phase == left {
			break
		}
	}
	w.mono = to
	return strings.Join(out, "\n")
}

// apply plays a command and checks on the way that the old state is left as it
// was and that the invariants hold.
func (w *world) apply(t *testing.T, cmd Command) string {
	t.Helper()
	w.ids++
	in := Input{Mono: w.mono, Wall: epochOfStories.Add(w.mono + w.skew), ID: strconv.Itoa(w.ids), Rules: w.rules}
	before := frozen(w.state)
	next, r, events, err := Apply(w.state, in, cmd)
	if !reflect.DeepEqual(before, frozen(w.state)) {
		t.Error("Apply changed the state that it was given")
	}
	if err != nil {
		return "error: " + err.Error()
	}
	w.state, w.wake = next, r.WakeAt
	if w.rules == 0 {
		if complaint := broken(&next, r, in); complaint != "" {
			t.Error(complaint)
		}
	}
	var out []string
	for _, e := range events {
		out = append(out, "- "+w.event(e))
	}
	switch {
	case r.Send != nil:
		// A request that takes the place of another abandons it.
		w.sent = append(w.sent, r.Send)
		out = append(out, w.describe(r))
	case r.Abandon:
		out = append(out, "abandon")
	}
	if r.Done {
		out = append(out, "done")
	} else {
		out = append(out, "wake "+r.WakeAt.String())
	}
	return strings.Join(out, "\n")
}

func frozen(s State) State {
	s.holdings = append([]holding(nil), s.holdings...)
	s.pending = append(protocol.Shards(nil), s.pending...)
	s.progress = append([]protocol.ShardProgress(nil), s.progress...)
	return s
}

func (w *world) life(incarnation string) string {
	if incarnation == "" {
		return "none"
	}
	for i, l := range w.lives {
		if l == incarnation {
			return fmt.Sprintf("i%d", i+1)
		}
	}
	w.lives = append(w.lives, incarnation)
	return fmt.Sprintf("i%d", len(w.lives))
}

func (w *world) describe(r Response) string {
	q := r.Send
	var b strings.Builder
	fmt.Fprintf(&b, "send #%d %s e=%d", len(w.sent), w.life(q.Incarnation), q.MemberEpoch)
	if r.Abandon {
		b.WriteString(" in place of the one before")
	}
	if q.StoppedIncarnation != "" {
		fmt.Fprintf(&b, " stopped=%s", w.life(q.StoppedIncarnation))
	}
	if q.MetadataVersion != 0 {
		fmt.Fprintf(&b, " v=%d", q.MetadataVersion)
	}
	if len(q.OwnedShards) > 0 {
		fmt.Fprintf(&b, " owned %v", q.OwnedShards)
	}
	for _, row := range q.RevokingShards {
		fmt.Fprintf(&b, " %s %d", strings.ToLower(string(row.State)), row.Shard)
		if row.Terminal() != (row.State == protocol.RevokeRevoked) || (row.AckedAt != "") != row.Terminal() {
			fmt.Fprintf(&b, " (in flight %d, acked %q)", row.InFlight, row.AckedAt)
		}
	}
	for i, row := range q.ShardProgress {
		if i == 3 {
			fmt.Fprintf(&b, " … %d rows", len(q.ShardProgress))
			break
		}
		fmt.Fprintf(&b, " progress %d", row.Shard)
		if row.Missing {
			b.WriteString(" missing")
		}
	}
	if q.Capacity.AvailableConcurrency != q.Capacity.MaxConcurrency {
		fmt.Fprintf(&b, " idle %d", q.Capacity.AvailableConcurrency)
	}
	if q.MaxWaitMs > 0 {
		fmt.Fprintf(&b, " wait=%dms", q.MaxWaitMs)
	}
	fmt.Fprintf(&b, ", give up at %s", r.GiveUpAt)
	return b.String()
}

func (w *world) event(e Event) string {
	switch e := e.(type) {
	case Joined:
		return fmt.Sprintf("%s joined in %d", w.life(e.Incarnation), e.Epoch)
	case Assigned:
		return fmt.Sprintf("assigned %d, token %d", e.Shard, e.Token)
	case Revoked:
		return fmt.Sprintf("revoked %d, token %d, until %s", e.Shard, e.Token, e.Deadline)
	case Lost:
		return fmt.Sprintf("lost %d, token %d", e.Shard, e.Token)
	case LeaseEnded:
		return "the lease of " + w.life(e.Incarnation) + " ended"
	case Fenced:
		return fmt.Sprintf("%s is over: %s %s", w.life(e.Incarnation), e.Status, e.Reason)
	case Waiting:
		return strings.TrimSpace(fmt.Sprintf("waiting: %s %s", e.Status, e.Reason))
	case Standby:
		return fmt.Sprintf("nothing to read, pending %v", e.Pending)
	case Left:
		if e.Clean {
			return "left"
		}
		return "left without a goodbye"
	}
	return fmt.Sprintf("%T", e)
}

func (w *world) show() string {
	s := &w.state
	phases := map[phase]string{joining: "joining", joined: "joined", stopping: "stopping", leaving: "leaving", left: "left"}
	out := []string{fmt.Sprintf("%s, %s, epoch %d", phases[s.phase], w.life(s.Incarnation()), s.Epoch())}
	if mono, wall, held := s.Lease(); held {
		out = append(out, fmt.Sprintf("lease until %s, on the wall %s", mono, wall.Sub(epochOfStories)))
	} else {
		out = append(out, "no lease")
	}
	for _, a := range s.Owned() {
		out = append(out, fmt.Sprintf("owns %d, token %d", a.Shard, a.Epoch))
	}
	if len(s.Pending()) > 0 {
		out = append(out, fmt.Sprintf("pending %v", s.Pending()))
	}
	return strings.Join(out, "\n")
}

// broken checks what must hold after every Apply with all rules on.
func broken(s *State, r Response, in Input) string {
	owns := s.any(owned)
	switch {
	case owns && s.phase != joined:
		return "it owns shards without having joined"
	case owns && !s.leased:
		return "it owns shards without a lease"
	case s.leased && s.lease.over(in.Mono, in.Wall):
		return "it lives on a lease that is over"
	case r.Done != (s.phase == left):
		return "done is not left"
	case s.phase == left && (s.out.id != "" || s.leased || s.any(owned, draining, dropping, released)):
		return "it left and still has something to do"
	case s.phase == stopping && (s.out.id != "" || s.leased || s.incarnation != "" || s.any(owned, draining, dropping, released)):
		return "it gave up an incarnation and goes on with it"
	case s.phase == stopping && !s.any(lost):
		return "it waits for nothing"
	case !r.Done && r.WakeAt < in.Mono:
		return "it asks to be woken in the past"
	case !r.Done && s.leased && r.WakeAt > s.lease.end():
		return "it sleeps beyond the end of its lease"
	case !r.Done && r.WakeAt > in.Mono+24*time.Hour:
		return "it sleeps for ever"
	case r.Send != nil && s.out.id != r.Send.RequestID:
		return "a request was sent whose answer would not count"
	}
	for i, h := range s.holdings {
		if i > 0 && s.holdings[i-1].shard >= h.shard {
			return "the holdings are not sorted, or one shard is held twice"
		}
		if h.hold == lost && s.phase != stopping && s.phase != left {
			return "it went on before everything was dropped"
		}
	}
	return brokenRequest(s, r.Send)
}

func brokenRequest(s *State, q *protocol.Heartbeat) string {
	if q == nil {
		return ""
	}
	if err := q.Validate(); err != nil {
		return "no coordinator can take the request: " + err.Error()
	}
	said := map[protocol.ShardIndex]bool{}
	for _, x := range q.OwnedShards {
		said[x] = true
	}
	for i := range q.RevokingShards {
		row := &q.RevokingShards[i]
		if said[row.Shard] {
			return "a shard is reported twice"
		}
		said[row.Shard] = true
		at, held := s.find(row.Shard)
		if !held || row.Terminal() != (s.holdings[at].hold == released) {
			return "a shard is reported other than it is held"
		}
	}
	for _, h := range s.holdings {
		if h.hold <= released && !said[h.shard] {
			return "a request keeps silent about a shard"
		}
	}
	if q.MemberEpoch == protocol.EpochLeave && len(q.OwnedShards) > 0 {
		return "it leaves and owns shards"
	}
	if (q.StoppedIncarnation != "") && q.MemberEpoch != protocol.EpochJoin {
		return "it names a stopped incarnation outside of a join"
	}
	return ""
}
