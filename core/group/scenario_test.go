package group

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/internal/rules"
	"github.com/redis-stream-coordinator/rsc/core/internal/scenario"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// world is one group in a story. Epochs are written as differences to the
// group's first one, so that stories read e1, e2, …
type world struct {
	state State
	base  protocol.Epoch
	rules rules.Set
	now   time.Time
	ids   int
	// later are requests that become part of the next change.
	later Batch
}

func newWorld(off rules.Set) *world {
	return &world{rules: off, now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
}

func (w *world) do(t *testing.T, c scenario.Cmd) string {
	w.now = w.now.Add(time.Second)
	switch c.Name {
	case "group":
		w.state = New("orders", "billing", int(c.Int(t, "shards", 2)), 1, protocol.DefaultTimings(), w.now)
		w.base = w.state.Counter
		return fmt.Sprintf("%d shards", w.state.ShardCount)
	case "join", "beat", "sync", "leave":
		beat := Beat{w.request(t, c, c.Str("m", ""))}
		if c.Has("later") {
			w.later = append(w.later, beat)
			return ""
		}
		return w.apply(t, Input{}, beat)
	case "post":
		return w.post(t, c)
	case "joins":
		var b Batch
		for _, m := range c.List("m") {
			b = append(b, Beat{w.request(t, scenario.Cmd{Name: "join", Args: map[string]string{"i": m + "1"}}, m)})
		}
		return w.apply(t, Input{}, b)
	case "expire":
		in := Input{Expired: map[string]bool{}}
		for _, key := range c.List("lives") {
			in.Expired[key] = true
		}
		return w.apply(t, in, Tick{})
	case "overdue":
		return w.apply(t, Input{Overdue: map[string]protocol.Epoch{
			c.Str("life", ""): w.base + protocol.Epoch(c.Int(t, "e", 0)),
		}}, Tick{})
	case "together":
		// A heartbeat and a tick in one change.
		in := Input{
			Expired: map[string]bool{c.Str("expired", ""): true},
			Overdue: map[string]protocol.Epoch{c.Str("overdue", ""): w.base + protocol.Epoch(c.Int(t, "since", 0))},
		}
		return w.apply(t, in, Batch{Beat{w.request(t, c, c.Str("m", ""))}, Tick{}})
	case "correct":
		return w.apply(t, Input{}, Correct{Seen: w.base + protocol.Epoch(c.Int(t, "seen", 0)), Reason: "a story"})
	case "adopt":
		cmd := Adopt{ShardCount: int(c.Int(t, "shards", 0)), ReadCount: int(c.Int(t, "read", 0)), StreamVersion: c.Int(t, "version", 0)}
		for _, gone := range c.List("gone") {
			shard, err := strconv.Atoi(gone)
			if err != nil {
				t.Fatalf("%s: %v", c.Pos, err)
			}
			cmd.Closed = cmd.Closed.With(shard)
		}
		return w.apply(t, Input{}, cmd)
	case "retime":
		timings := protocol.DefaultTimings()
		timings.Lease = time.Duration(c.Int(t, "lease", 15)) * time.Second
		return w.apply(t, Input{}, Retime{timings})
	case "drain":
		return w.apply(t, Input{}, Drain{Member: c.Str("m", ""), Undo: c.Has("undo")})
	case "later":
		// A lease time has passed: since the correction was opened, since the
		// timings were changed.
		in := Input{PromiseOver: w.state.TimingsEpoch}
		if k := w.state.Correction; k != nil {
			in.Corrected = k.Jump
		}
		return w.apply(t, in, Tick{})
	case "lease":
		return fmt.Sprintf("%s, to be waited for %s", w.state.Timings.Lease, w.state.LongestLease())
	case "show":
		return w.show()
	}
	t.Fatalf("%s: unknown command %s", c.Pos, c.Name)
	return ""
}

// post sends the body of a heartbeat as a client writes it, with $e3 for an
// epoch, and answers with the body that the client reads.
func (w *world) post(t *testing.T, c scenario.Cmd) string {
	body := c.Words[0]
	for e := w.base + 30; e >= w.base; e-- {
		body = strings.ReplaceAll(body, "$"+w.epoch(e), strconv.FormatInt(int64(e), 10))
	}
	q, err := protocol.DecodeHeartbeat([]byte(body))
	if err != nil {
		t.Fatalf("%s: %v", c.Pos, err)
	}
	w.ids++
	next, r, events, err := Apply(w.state, Input{Now: w.now, ID: strconv.Itoa(w.ids), Rules: w.rules}, Beat{q})
	if err != nil {
		t.Fatalf("%s: %v", c.Pos, err)
	}
	w.state = reread(t, next)
	answer, err := json.Marshal(r.Answers[0].HeartbeatResponse)
	if err != nil {
		t.Fatal(err)
	}
	out := []string{w.relative(string(answer))}
	for _, e := range events {
		out = append(out, "- "+w.event(e))
	}
	return strings.Join(out, "\n")
}

func (w *world) request(t *testing.T, c scenario.Cmd, member string) *protocol.Heartbeat {
	q := &protocol.Heartbeat{
		ProtocolVersion: int(c.Int(t, "version", 1)), RequestID: "q", MemberID: member, MemberName: c.Str("name", ""),
		Incarnation: c.Str("i", ""), StoppedIncarnation: c.Str("stopped", ""), Capacity: protocol.Capacity{MaxConcurrency: 1},
	}
	switch c.Name {
	case "leave":
		q.MemberEpoch = protocol.EpochLeave
	case "join":
		q.MemberEpoch = protocol.EpochJoin
	case "sync":
		// A member that has applied the last answer: at its present epoch and at
		// the present version.
		l, found := NewView(&w.state).Life(LifeKey(member, q.Incarnation))
		if !found {
			t.Fatalf("%s: nobody lives as %s/%s", c.Pos, member, q.Incarnation)
		}
		q.MemberEpoch, q.MetadataVersion = l.Epoch, w.state.MetadataVersion
	default:
		q.MemberEpoch = w.base + protocol.Epoch(c.Int(t, "e", 0))
	}
	if c.Has("raw") {
		q.MemberEpoch = protocol.Epoch(c.Int(t, "raw", 0))
	}
	for _, s := range c.List("owned") {
		q.OwnedShards = append(q.OwnedShards, shardIndex(t, s))
	}
	for _, s := range c.List("revoked") {
		q.RevokingShards = append(q.RevokingShards, protocol.RevokingShard{Shard: shardIndex(t, s), State: protocol.RevokeRevoked})
	}
	for _, s := range c.List("draining") {
		q.RevokingShards = append(q.RevokingShards, protocol.RevokingShard{Shard: shardIndex(t, s), State: protocol.RevokeDraining, InFlight: 1})
	}
	for _, s := range c.List("progress") {
		q.ShardProgress = append(q.ShardProgress, protocol.ShardProgress{Shard: shardIndex(t, s)})
	}
	return q
}

func shardIndex(t *testing.T, s string) protocol.ShardIndex {
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return protocol.ShardIndex(n)
}

// apply plays a command and checks on the way that the old state is left as it
// was, and that the new one survives a trip through the store.
func (w *world) apply(t *testing.T, in Input, cmd Command) string {
	t.Helper()
	w.ids++
	in.Now, in.ID, in.Rules = w.now, strconv.Itoa(w.ids), w.rules
	if len(w.later) > 0 {
		w.later = append(w.later, cmd)
		cmd, w.later = w.later, nil
	}
	before, err := Encode(&w.state)
	if err != nil {
		t.Fatal(err)
	}
	next, r, events, err := Apply(w.state, in, cmd)
	if err != nil {
		return "error: " + err.Error()
	}
	after, err := Encode(&w.state)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(before, after) {
		t.Error("Apply changed the state that it was given")
	}
	w.state = reread(t, next)
	var out []string
	for _, a := range r.Answers {
		out = append(out, w.answer(a))
	}
	for _, e := range events {
		out = append(out, "- "+w.event(e))
	}
	if len(r.Relied) > 0 {
		out = append(out, "relies on the stamps of "+strings.Join(r.Relied, " "))
	}
	if len(r.Gone) > 0 {
		out = append(out, "gone "+strings.Join(r.Gone, " "))
	}
	if !r.Changed {
		out = append(out, "nothing to save")
	}
	return strings.Join(out, "\n")
}

func reread(t *testing.T, s State) State {
	t.Helper()
	body, err := Encode(&s)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Decode(body)
	if err != nil {
		t.Fatalf("the state cannot be read back: %v", err)
	}
	again, err := Encode(&got)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(again, body) {
		t.Fatalf("the state changes in the store:\n%s\n%s", body, again)
	}
	if len(s.Ended) == 0 {
		got.Ended = s.Ended
	}
	if len(s.Lives) == 0 {
		got.Lives = s.Lives
	}
	if !reflect.DeepEqual(got.Ledger, s.Ledger) || !reflect.DeepEqual(got.Lives, s.Lives) {
		t.Fatalf("the state changes in the store:\n%+v\n%+v", s, got)
	}
	return got
}

func (w *world) answer(a Answer) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", a.MemberID, a.Status)
	if a.Status.RenewsLease() {
		fmt.Fprintf(&b, " %s", w.epoch(a.MemberEpoch))
		if len(a.Assignment.AssignedShards) > 0 {
			b.WriteString(" assigned")
		}
		for _, s := range a.Assignment.AssignedShards {
			fmt.Fprintf(&b, " %d(%s)", s.Shard, w.epoch(s.Epoch))
		}
		if len(a.Assignment.PendingShards) > 0 {
			b.WriteString(" pending")
		}
		for _, s := range a.Assignment.PendingShards {
			fmt.Fprintf(&b, " %d", s)
		}
	}
	if a.Reason != "" {
		fmt.Fprintf(&b, " %q", w.relative(a.Reason))
	}
	if a.Life != "" {
		b.WriteString(" renews " + a.Life)
	}
	return b.String()
}

// relative replaces the epochs in a reason.
func (w *world) relative(s string) string {
	for e := w.state.Counter + 20; e >= w.base; e-- {
		s = strings.ReplaceAll(s, strconv.FormatInt(int64(e), 10), w.epoch(e))
	}
	return s
}

func (w *world) epoch(e protocol.Epoch) string {
	if e <= 0 {
		return fmt.Sprintf("e=%d", e)
	}
	return fmt.Sprintf("e%d", e-w.base)
}

func (w *world) event(e Event) string {
	switch e := e.(type) {
	case MemberJoined:
		if e.Replaced {
			return fmt.Sprintf("%s/%s joined in %s, replacing another", e.Member, e.Incarnation, w.epoch(e.Epoch))
		}
		return fmt.Sprintf("%s/%s joined in %s", e.Member, e.Incarnation, w.epoch(e.Epoch))
	case MemberLeaving:
		return fmt.Sprintf("%s/%s is leaving", e.Member, e.Incarnation)
	case MemberEnded:
		s := fmt.Sprintf("%s/%s ended: %s", e.Member, e.Incarnation, e.Reason)
		if e.Detail != "" {
			s += ", " + e.Detail
		}
		return s
	case ShardGranted:
		return fmt.Sprintf("shard %d granted to %s in %s", e.Shard, e.Member, w.epoch(e.Epoch))
	case ShardRevoked:
		return fmt.Sprintf("shard %d revoked from %s in %s", e.Shard, e.Member, w.epoch(e.Epoch))
	case ShardReleased:
		return fmt.Sprintf("shard %d released by %s: %s", e.Shard, e.Member, e.Cause)
	case TargetChanged:
		return fmt.Sprintf("target %s for %d members, %d moves", w.epoch(e.GroupEpoch), e.Members, e.Moves)
	case RowsIgnored:
		return fmt.Sprintf("%d rows of %s ignored", e.Rows, e.Member)
	case CorrectionOpened:
		return fmt.Sprintf("correction with %s: %s", w.epoch(e.Jump), e.Reason)
	case CorrectionEnded:
		return "correction over"
	case ShardsAdopted:
		return fmt.Sprintf("%d shards are written and %d read, as of version %d", e.ShardCount, e.ReadCount, e.StreamVersion)
	case MemberDraining:
		if e.Undone {
			return fmt.Sprintf("%s/%s is not drained any more", e.Member, e.Incarnation)
		}
		return fmt.Sprintf("%s/%s is drained", e.Member, e.Incarnation)
	case TimingsChanged:
		return fmt.Sprintf("lease %s is now %s", e.Before.Lease, e.Now.Lease)
	}
	return fmt.Sprintf("%T", e)
}

func (w *world) show() string {
	s := &w.state
	out := []string{fmt.Sprintf("%s, group epoch %s", s.Summary(), w.epoch(s.GroupEpoch))}
	for i := range s.Lives {
		l := &s.Lives[i]
		acked := "nothing"
		if l.Acked > 0 {
			acked = w.epoch(l.Acked)
		}
		state := lifeStates[l.State]
		if l.Draining {
			state += " and drained"
		}
		out = append(out, fmt.Sprintf("%s %s, joined %s, at %s, acknowledged %s", l.Key(), state, w.epoch(l.JoinEpoch), w.epoch(l.Epoch), acked))
	}
	for shard, h := range s.Ledger.Holder {
		line := fmt.Sprintf("shard %d:", shard)
		switch {
		case h == None:
			line += " free"
		case s.Ledger.Revoke[shard] != 0:
			line += fmt.Sprintf(" held by %s since %s, revoked in %s", s.Lives[h].Key(), w.epoch(s.Ledger.Grant[shard]), w.epoch(s.Ledger.Revoke[shard]))
		default:
			line += fmt.Sprintf(" held by %s since %s", s.Lives[h].Key(), w.epoch(s.Ledger.Grant[shard]))
		}
		if to := s.Target[shard]; to != None && to != h {
			line += ", meant for " + s.Lives[to].Member
		}
		out = append(out, line)
	}
	return strings.Join(out, "\n")
}

func TestScenarios(t *testing.T) {
	scenario.Files(t, "testdata/*.txt", func(t *testing.T, path string) {
		scenario.Run(t, path, newWorld(0).do)
	})
}

// TestEveryRuleIsNeeded switches each rule off and demands that the story of
// the rule comes out differently.
func TestEveryRuleIsNeeded(t *testing.T) {
	for _, tc := range []struct {
		rule rules.Rule
		name string
		file string
	}{
		{rules.UnreportedIsHeld, "an unreported grant is held", "unreported_grant_is_held"},
		{rules.RevokedNeedsGrantEpoch, "REVOKED needs the grant's epoch", "revoked_of_an_earlier_grant"},
		{rules.OmissionNeedsRevokeEpoch, "omission needs the revocation's epoch", "omission_at_an_old_epoch"},
		{rules.LeavingHolds, "a leaver holds what it drains", "leaver_holds_what_it_drains"},
		{rules.NeverUnrevoked, "a revoked shard is never un-revoked", "target_returns_to_the_holder"},
		{rules.NewEpochPerChange, "each change has a new epoch", "omission_at_an_old_epoch"},
		{rules.OlderEpochIsValid, "the epoch before a lost answer is valid", "lost_answer"},
		{rules.StaleIsRefused, "a stale request changes nothing", "stale_request"},
		{rules.RestartHoldsOldGrants, "a restart waits for the old lease", "fast_restart"},
		{rules.RejoinNeverDisplaces, "a rejoin never displaces", "twins"},
		{rules.EndedStaysEnded, "an incarnation that ended stays ended", "ended_stays_ended"},
		{rules.LeaverIsNotFenced, "a leaver is answered whatever it claims", "leaver_holds_what_it_drains"},
		{rules.LegacyLeaveHolds, "an old client's leave frees only what it reports", "legacy_leave"},
		{rules.LayoutsDoNotGoBack, "a group follows no older record", "shards_are_removed"},
		{rules.RemovedIsHeld, "a removed shard is held until its holder lets go", "shards_are_removed"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := "testdata/" + tc.file + ".txt"
			if d := scenario.Outcome(t, path, newWorld(0).do); len(d) > 0 {
				t.Fatalf("the story does not hold with all rules on: %v", d)
			}
			if d := scenario.Outcome(t, path, newWorld(rules.Without(tc.rule)).do); len(d) == 0 {
				t.Fatalf("%s comes out the same without the rule", path)
			}
		})
	}
}

func TestApplyIsDeterministic(t *testing.T) {
	run := func() string {
		w := newWorld(0)
		var out []string
		for _, c := range []scenario.Cmd{
			{Name: "group", Args: map[string]string{"shards": "12"}},
			{Name: "joins", Args: map[string]string{"m": "d,a,c,b"}},
			{Name: "expire", Args: map[string]string{"lives": "c/c1,a/a1"}},
			{Name: "show"},
		} {
			out = append(out, w.do(t, c))
		}
		return strings.Join(out, "\n")
	}
	want := run()
	for range 20 {
		if got := run(); got != want {
			t.Fatalf("the same input gives another output:\n%s\n%s", got, want)
		}
	}
	if !slices.Contains(strings.Split(want, "\n"), "relies on the stamps of a/a1 c/c1") {
		t.Errorf("expiry does not name its stamps:\n%s", want)
	}
}
