package member

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

func TestNewRefusesAConfigThatCannotWork(t *testing.T) {
	_, err := New(Config{
		MemberID: "a/b", MemberName: "x\ny", MaxConcurrency: 0, MaxWait: -time.Second,
		Timings: protocol.Timings{HeartbeatInterval: time.Hour, Lease: time.Second, RebalanceTimeout: time.Second},
	})
	if err == nil {
		t.Fatal("New took it")
	}
	for _, part := range []string{"memberId", "memberName", "MaxConcurrency is 0", "MaxWait is -1s", "member-lease-ttl"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not speak of %s", err, part)
		}
	}
	if _, err := New(Config{MemberID: "a", MemberName: "worker", MaxConcurrency: 1}); err != nil {
		t.Errorf("New refuses the smallest config: %v", err)
	}
}

func mustNew(t testing.TB) State {
	t.Helper()
	s, err := New(Config{MemberID: "a", MaxConcurrency: 1})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestApplyRefusesWhatADriverMustNotDo(t *testing.T) {
	s := mustNew(t)
	s, _, _, err := Apply(s, Input{Mono: time.Second, Wall: epochOfStories, ID: "1"}, Tick{})
	if err != nil {
		t.Fatal(err)
	}
	good := Input{Mono: time.Second, Wall: epochOfStories, ID: "2"}
	for _, tc := range []struct {
		name string
		in   Input
		cmd  Command
		want error
	}{
		{"no id", Input{Mono: time.Second}, Tick{}, ErrInput},
		{"an id that is too long", Input{Mono: time.Second, ID: strings.Repeat("x", MaxIDBytes+1)}, Tick{}, ErrInput},
		{"a clock that goes back", Input{Mono: time.Millisecond, ID: "2"}, Tick{}, ErrInput},
		{"no command", good, nil, ErrInput},
		{"no answer", good, Answer{}, ErrInput},
		{"a leave that ended before", good, Leave{Within: -1}, ErrInput},
		{"a shard that was never held", good, Released{Shard: 3, Token: 1}, ErrNotHeld},
	} {
		next, r, events, err := Apply(s, tc.in, tc.cmd)
		if !errors.Is(err, tc.want) {
			t.Errorf("%s: error %v, want %v", tc.name, err, tc.want)
		}
		if next.now != s.now || r.Send != nil || len(events) > 0 {
			t.Errorf("%s: something happened all the same", tc.name)
		}
	}
}

func TestReleasedNeedsTheTokenAndARevoke(t *testing.T) {
	w := newWorld(0)
	w.state = mustNew(t)
	w.apply(t, Tick{})
	w.apply(t, Answer{ok(w.sent[0], 7, 0)})
	if got := w.apply(t, Released{Shard: 0, Token: 7}); !strings.HasPrefix(got, "error") {
		t.Errorf("a shard that is owned was released: %s", got)
	}
	w.apply(t, Leave{Within: time.Minute})
	if got := w.apply(t, Released{Shard: 0, Token: 6}); !strings.HasPrefix(got, "error") {
		t.Errorf("a shard was released under another token: %s", got)
	}
	if got := w.apply(t, Released{Shard: 0, Token: 7}); strings.HasPrefix(got, "error") {
		t.Error(got)
	}
}

// ok makes the answer OK to q with shards under one token.
func ok(q *protocol.Heartbeat, epoch protocol.Epoch, shards ...protocol.ShardIndex) *protocol.HeartbeatResponse {
	r := protocol.NewHeartbeatResponse(q, protocol.StatusOK, "", protocol.DefaultTimings())
	r.MemberEpoch = epoch
	for _, s := range shards {
		r.Assignment.AssignedShards = append(r.Assignment.AssignedShards, protocol.AssignedShard{Shard: s, Epoch: epoch})
	}
	return &r
}

// TestAReleaseThatMeetsTheEndOfTheLease: the application lets go at the moment
// the lease ends. It is not told to drop what it has just let go of.
func TestAReleaseThatMeetsTheEndOfTheLease(t *testing.T) {
	w := newWorld(0)
	w.state = mustNew(t)
	w.apply(t, Tick{})
	w.apply(t, Answer{ok(w.sent[0], 7, 0)})
	w.apply(t, Answer{ok(w.sent[1], 8)})
	w.mono = 14 * time.Second
	if got := w.apply(t, Released{Shard: 0, Token: 7}); strings.Contains(got, "lost") || !strings.Contains(got, "the lease of i1 ended") {
		t.Errorf("got:\n%s", got)
	}
}

func TestAnAnswerWithTooManyShardsChangesNothing(t *testing.T) {
	w := newWorld(0)
	w.state = mustNew(t)
	w.apply(t, Tick{})
	r := ok(w.sent[0], 7)
	r.Assignment.PendingShards = make(protocol.Shards, protocol.MaxShards+1)
	if got := w.apply(t, Answer{r}); !strings.Contains(got, "lists more than 65536 shards") {
		t.Errorf("got:\n%s", got)
	}
}

func TestAnAnswerWhoseLeaseIsOverStartsNothing(t *testing.T) {
	w := newWorld(0)
	w.state = mustNew(t)
	w.apply(t, Tick{})
	// The machine was suspended while the request was on its way.
	w.skew = time.Minute
	got := w.apply(t, Answer{ok(w.sent[0], 7, 0)})
	if strings.Contains(got, "assigned") || !strings.Contains(got, "the lease of i1 ended") {
		t.Errorf("got:\n%s", got)
	}
}

func TestProgressTakesTurns(t *testing.T) {
	w := newWorld(0)
	w.state = mustNew(t)
	w.apply(t, Tick{})
	var shards []protocol.ShardIndex
	var rows []protocol.ShardProgress
	for i := range protocol.ShardIndex(2500) {
		shards = append(shards, i)
		rows = append(rows, protocol.ShardProgress{Shard: i})
	}
	w.apply(t, Answer{ok(w.sent[0], 7, shards...)})
	w.apply(t, Progress{Rows: rows})
	seen := map[protocol.ShardIndex]bool{}
	for range 3 {
		q := w.sent[len(w.sent)-1]
		w.apply(t, Answer{ok(q, 7, shards...)})
		w.mono = w.wake
		w.apply(t, Tick{})
		q = w.sent[len(w.sent)-1]
		if n := len(q.ShardProgress); n != maxProgressRows {
			t.Fatalf("%d rows in a request", n)
		}
		for _, row := range q.ShardProgress {
			seen[row.Shard] = true
		}
	}
	if len(seen) != len(rows) {
		t.Errorf("%d of %d shards were reported in three turns", len(seen), len(rows))
	}
}

// FuzzApply reads bytes as a history: what the coordinator answers, what the
// application does, how time passes. The invariants hold whatever happens.
func FuzzApply(f *testing.F) {
	f.Add([]byte{1, 0, 9, 1, 1, 9, 3, 4, 2})
	f.Add([]byte{1, 0x1f, 2, 40, 40, 40, 3, 1, 0x0f, 5})
	f.Add([]byte{1, 0x3f, 1, 0x3f, 1, 0x30, 3, 3, 6, 1, 0, 3})
	f.Fuzz(func(t *testing.T, history []byte) {
		s := mustNew(t)
		s.cfg.MaxWait = time.Second
		var mono, skew time.Duration
		var latest *protocol.Heartbeat
		token := protocol.Epoch(10)
		told := map[protocol.ShardIndex]protocol.Epoch{}
		n := 0
		do := func(cmd Command) {
			n++
			in := Input{Mono: mono, Wall: epochOfStories.Add(mono + skew), ID: fmt.Sprint(n)}
			next, r, events, err := Apply(s, in, cmd)
			if err != nil {
				t.Fatal(err)
			}
			if complaint := broken(&next, r, in); complaint != "" {
				t.Fatal(complaint)
			}
			for _, e := range events {
				switch e := e.(type) {
				case Revoked:
					told[e.Shard] = e.Token
				case Lost:
					told[e.Shard] = e.Token
				case Assigned:
					if _, busy := told[e.Shard]; busy {
						t.Fatalf("shard %d starts before it was let go of", e.Shard)
					}
				}
			}
			s = next
			if r.Send != nil {
				latest = r.Send
			}
		}
		do(Tick{})
		for i := 0; i < len(history); i++ {
			arg := byte(0)
			if i+1 < len(history) {
				arg = history[i+1]
			}
			switch history[i] % 8 {
			case 0:
				do(Tick{})
			case 1:
				token++
				r := ok(latest, token)
				if latest.MemberEpoch == protocol.EpochLeave {
					r.MemberEpoch = protocol.EpochLeave
				}
				for bit := range protocol.ShardIndex(4) {
					if arg&(1<<bit) != 0 {
						r.Assignment.AssignedShards = append(r.Assignment.AssignedShards,
							protocol.AssignedShard{Shard: bit, Epoch: token - protocol.Epoch(arg>>6)})
					}
				}
				r.Status = []protocol.Status{
					protocol.StatusOK, protocol.StatusRetry, protocol.StatusFencedEpoch, protocol.StatusSyncMetadata,
				}[arg>>4&3]
				do(Answer{r})
				i++
			case 2:
				mono += time.Duration(arg) * 20 * ms
				do(Tick{})
				i++
			case 3:
				for shard := range protocol.ShardIndex(4) {
					if token, held := told[shard]; held {
						delete(told, shard)
						do(Released{Shard: shard, Token: token})
						break
					}
				}
			case 4:
				do(Failed{latest.RequestID})
			case 5:
				do(Leave{Within: time.Duration(arg) * 100 * ms})
			case 6:
				skew += time.Duration(int8(arg)) * time.Second
				do(Tick{})
				i++
			case 7:
				do(Progress{Rows: []protocol.ShardProgress{{Shard: protocol.ShardIndex(arg & 3), Missing: arg&4 != 0}}})
				i++
			}
		}
	})
}

// TestLostAnswersDoNotEndTheLease: with a coordinator that holds heartbeats for as long
// as it is asked to, whatever the lease; and with two of three coordinators that are
// silent, asked one after the other.
func TestLostAnswersDoNotEndTheLease(t *testing.T) {
	for _, inARow := range []int{1, 2} {
		for _, lease := range []time.Duration{1500 * ms, 2 * time.Second, 3 * time.Second, 6 * time.Second, 15 * time.Second, time.Minute, time.Hour} {
			for _, maxWait := range []time.Duration{0, time.Second, time.Minute} {
				t.Run(fmt.Sprintf("%d in a row, lease %s, wait %s", inARow, lease, maxWait), func(t *testing.T) {
					loseAnswers(t, inARow, lease, maxWait)
				})
			}
		}
	}
}

func loseAnswers(t *testing.T, inARow int, lease, maxWait time.Duration) {
	t.Helper()
	timings := protocol.Timings{HeartbeatInterval: lease / 5, Lease: lease, RebalanceTimeout: lease}
	s, err := New(Config{MemberID: "a", MaxConcurrency: 1, MaxWait: maxWait, Timings: timings})
	if err != nil {
		t.Fatal(err)
	}
	const roundTrip = 20 * ms
	var mono, answerAt, wake time.Duration
	var cmd Command = Tick{}
	var asked *protocol.Heartbeat
	for sent := 0; sent < 60; {
		next, r, events, err := Apply(s, Input{Mono: mono, Wall: epochOfStories.Add(mono), ID: fmt.Sprintf("%d-%s", sent, mono)}, cmd)
		if err != nil {
			t.Fatal(err)
		}
		s, wake = next, r.WakeAt
		for _, e := range events {
			if _, ended := e.(LeaseEnded); ended {
				t.Fatalf("it ended at %s, after %d requests", mono, sent)
			}
		}
		if r.Send != nil {
			sent++
			asked, answerAt = r.Send, mono+time.Duration(r.Send.MaxWaitMs)*ms+roundTrip
			if sent%7 >= 7-inARow {
				asked = nil // the answer is lost
			}
		}
		cmd, mono = Tick{}, max(wake, mono)
		if asked != nil && answerAt <= mono {
			answer := ok(asked, 7, 0)
			answer.MemberLeaseTTLMs, answer.HeartbeatIntervalMs = lease.Milliseconds(), timings.HeartbeatInterval.Milliseconds()
			cmd, mono, asked = Answer{answer}, answerAt, nil
		}
	}
}
