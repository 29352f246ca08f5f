package engine

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/group"
	"github.com/redis-stream-coordinator/rsc/core/internal/rules"
	"github.com/redis-stream-coordinator/rsc/core/internal/scenario"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// world is a model store and some coordinators on it, on one virtual clock.
type world struct {
	rules  rules.Set
	now    time.Duration
	base   protocol.Epoch
	jumps  []protocol.Epoch
	ids    int
	store  modelStore
	nodes  map[string]*node
	order  []string
	out    []string
	nextID uint64
	ensure error
	// loads has every load shown.
	loads bool
}

type modelStore struct {
	record
	instance int
	down     bool
	history  []record
}

type record struct {
	version Version
	body    []byte
	stamps  map[string]string
}

// node is one coordinator: an engine with its open effect.
type node struct {
	name   string
	engine *Engine
	wake   time.Duration
	names  map[uint64]string
	// pauseAt names the effect that is to be parked, pauseAfter whether it is
	// carried out first; lose says that its reply is lost.
	pauseAt    string
	pauseAfter bool
	lose       bool
	parked     func() Happening
}

var epochTime = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func newWorld(off rules.Set) *world {
	return &world{rules: off, nodes: map[string]*node{}, store: modelStore{record: record{stamps: map[string]string{}}, instance: 1}}
}

func (w *world) input() Input {
	w.ids++
	return Input{Mono: w.now, Now: epochTime.Add(w.now), ID: fmt.Sprintf("n%d", w.ids)}
}

func (w *world) say(format string, args ...any) { w.out = append(w.out, fmt.Sprintf(format, args...)) }

func (w *world) do(t *testing.T, c scenario.Cmd) string {
	t.Helper()
	w.out = nil
	switch c.Name {
	case "group":
		w.create(t, c)
	case "coordinator":
		w.start(c)
	case "wait":
		d, err := time.ParseDuration(c.Words[0])
		if err != nil {
			t.Fatalf("%s: %v", c.Pos, err)
		}
		w.advance(w.now + d)
	case "join", "beat", "leave":
		w.send(t, c)
	case "pause":
		n := w.node(t, c)
		n.pauseAt, n.pauseAfter, n.lose = c.Str("at", ""), c.Has("after"), c.Has("lost")
	case "resume":
		n := w.node(t, c)
		then := n.parked
		n.parked = nil
		if then == nil {
			w.say("%s is not paused", n.name)
			break
		}
		w.step(n, then())
	case "store":
		w.setStore(t, c)
	case "cancel", "close":
		w.end(t, c)
	case "told":
		var h Changed
		if v := w.store.version; !c.Has("any") {
			h = Changed{Revision: v.Revision, Nonce: v.Nonce}
		}
		w.step(w.node(t, c), h)
	case "show":
		w.show(t)
	case "show-loads":
		w.loads = true
	default:
		t.Fatalf("%s: unknown command %s", c.Pos, c.Name)
	}
	return strings.Join(w.out, "\n")
}

func (w *world) node(t *testing.T, c scenario.Cmd) *node {
	n := w.nodes[c.Str("c", "c1")]
	if n == nil {
		t.Fatalf("%s: no such coordinator", c.Pos)
	}
	return n
}

func (w *world) create(t *testing.T, c scenario.Cmd) {
	s := group.New("orders", "billing", int(c.Int(t, "shards", 2)), 1, protocol.Timings{
		HeartbeatInterval: 300 * time.Millisecond, Lease: 3 * time.Second,
		RebalanceTimeout: time.Duration(c.Int(t, "timeout", 3)) * time.Second,
	}, epochTime)
	w.base = s.Counter
	s.Saving(group.Save{Revision: 1, Nonce: "first"}, w.store.at().Instance)
	body, err := group.Encode(&s)
	if err != nil {
		t.Fatal(err)
	}
	w.store.commit(record{version: Version{Revision: 1, Nonce: "first"}, body: body, stamps: map[string]string{}})
}

func (w *world) start(c scenario.Cmd) {
	n := &node{name: c.Words[0], names: map[uint64]string{}, wake: -1, pauseAt: c.Str("at", "")}
	timings := protocol.DefaultTimings()
	timings.Lease, timings.RebalanceTimeout, timings.HeartbeatInterval = 3*time.Second, 3*time.Second, 300*time.Millisecond
	n.engine = New(Config{Stream: "orders", Group: "billing", TickInterval: 100 * time.Millisecond, Timings: timings, Rules: w.rules})
	if _, again := w.nodes[n.name]; !again {
		w.order = append(w.order, n.name)
	}
	w.nodes[n.name] = n
	w.step(n, Woke{})
}

// advance lets time pass, from wake to wake.
func (w *world) advance(to time.Duration) {
	for {
		var due *node
		for _, name := range w.order {
			n := w.nodes[name]
			if n.wake >= 0 && n.wake <= to && (due == nil || n.wake < due.wake) {
				due = n
			}
		}
		if due == nil {
			break
		}
		w.now = max(w.now, due.wake)
		due.wake = -1
		w.step(due, Woke{})
	}
	w.now = to
}

func (w *world) send(t *testing.T, c scenario.Cmd) {
	n := w.node(t, c)
	q := &protocol.Heartbeat{
		ProtocolVersion: 1, RequestID: "q", MemberID: c.Str("m", ""), Incarnation: c.Str("i", ""),
		StoppedIncarnation: c.Str("stopped", ""), Capacity: protocol.Capacity{MaxConcurrency: 1},
		MaxWaitMs: c.Int(t, "wait", 0),
	}
	if c.Has("v") {
		q.MetadataVersion = int64(w.number(t, c, "v"))
	}
	switch c.Name {
	case "leave":
		q.MemberEpoch = protocol.EpochLeave
	case "beat":
		q.MemberEpoch = w.number(t, c, "e")
	}
	for _, s := range c.List("owned") {
		i, _ := strconv.Atoi(s)
		q.OwnedShards = append(q.OwnedShards, protocol.ShardIndex(i))
	}
	for _, s := range c.List("revoked") {
		i, _ := strconv.Atoi(s)
		q.RevokingShards = append(q.RevokingShards, protocol.RevokingShard{Shard: protocol.ShardIndex(i), State: protocol.RevokeRevoked})
	}
	w.nextID++
	n.names[w.nextID] = c.Str("as", q.MemberID)
	w.step(n, Arrived{ID: w.nextID, Request: q})
}

// number reads an epoch of a story: 3 is the third one, J1+3 the third one after
// the first correction.
func (w *world) number(t *testing.T, c scenario.Cmd, key string) protocol.Epoch {
	from, text := w.base, c.Str(key, "0")
	if jump, rest, jumped := strings.Cut(strings.TrimPrefix(text, "J"), "+"); jumped {
		k, err := strconv.Atoi(jump)
		if err != nil || k < 1 {
			t.Fatalf("%s: what is the correction %s?", c.Pos, jump)
		}
		// A story that is played without a rule may lack the correction.
		if text = rest; k <= len(w.jumps) {
			from = w.jumps[k-1]
		}
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %s=%s is no epoch", c.Pos, key, c.Str(key, ""))
	}
	return from + protocol.Epoch(n)
}

func (w *world) setStore(t *testing.T, c scenario.Cmd) {
	s := &w.store
	switch {
	case c.Has("down"):
		s.down = true
	case c.Has("up"):
		s.down = false
	case c.Has("lose"):
		// Another instance takes over without the last writes.
		s.instance++
		back := len(s.history) - 1 - int(c.Int(t, "lose", 0))
		s.record = s.history[max(0, back)]
		s.history = s.history[:max(0, back)+1]
	case c.Has("restore"):
		// The same instance, without the last writes.
		back := len(s.history) - 1 - int(c.Int(t, "restore", 0))
		s.record = s.history[max(0, back)]
	case c.Has("forget-stamps"):
		s.stamps = map[string]string{}
	case c.Has("damage"):
		s.body = []byte(`{"schemaVersion":2}`)
		s.version.Nonce = "damaged"
	case c.Has("delete"):
		s.record = record{stamps: map[string]string{}}
	case c.Has("refuse-groups"):
		w.ensure = protocol.ErrGroupNotFound
	default:
		t.Fatalf("%s: what of the store?", c.Pos)
	}
}

func (w *world) end(t *testing.T, c scenario.Cmd) {
	n := w.node(t, c)
	if c.Name == "close" {
		w.step(n, Closing{})
		w.say("quiet: %v", n.engine.Quiet())
		return
	}
	for id, name := range n.names {
		if name == c.Str("as", "") {
			w.step(n, Canceled{ID: id})
		}
	}
}

// step tells a coordinator something and carries its effects out until nothing
// is open.
func (w *world) step(n *node, what Happening) {
	for what != nil {
		var next Happening
		for _, effect := range n.engine.Step(w.input(), what) {
			if h := w.carryOut(n, effect); h != nil {
				next = h
			}
		}
		what = next
	}
}

func (w *world) carryOut(n *node, effect Effect) Happening {
	switch e := effect.(type) {
	case Answer:
		w.say("%s answers %s: %s", n.name, n.names[e.ID], w.answer(e.Response))
	case Publish:
		for _, event := range e.Events {
			if line := w.event(event); line != "" {
				w.say("%s publishes: %s", n.name, line)
			}
		}
	case Complain:
		w.say("%s complains: %v", n.name, e.Err)
	case WakeAt:
		n.wake = e.Mono
	case Unlock:
		w.say("%s unlocks", n.name)
	case Load:
		if e.Lock {
			w.say("%s locks", n.name)
		}
		if w.loads {
			w.say("%s loads", n.name)
		}
		return w.reply(n, "load", func() Happening { return w.load(e) })
	case Renew:
		return w.reply(n, "renew", func() Happening { return w.renew(n, e) })
	case Save:
		return w.reply(n, "save", func() Happening { return w.save(n, e) })
	case Ensure:
		w.say("%s asks for the group", n.name)
		return w.reply(n, "ensure", func() Happening { return Ensured{Err: w.ensure} })
	}
	return nil
}

// reply carries a store call out, unless it is to be parked.
func (w *world) reply(n *node, kind string, call func() Happening) Happening {
	if n.pauseAt != kind {
		return call()
	}
	n.pauseAt = ""
	lose := n.lose
	if n.pauseAfter || lose {
		done := call()
		if lose {
			done = map[string]Happening{
				"load": Loaded{Err: errors.New("lost")}, "renew": Renewed{Outcome: Unknown}, "save": Saved{Outcome: Unknown},
			}[kind]
			w.say("the reply to %s of %s is lost", kind, n.name)
			return done
		}
		n.parked = func() Happening { return done }
	} else {
		n.parked = call
	}
	w.say("%s is paused at its %s", n.name, kind)
	return nil
}

func (s *modelStore) at() Version {
	v := s.version
	v.Instance = fmt.Sprintf("instance-%d", s.instance)
	return v
}

func (s *modelStore) commit(r record) {
	s.record = r
	s.history = append(s.history, record{r.version, r.body, maps.Clone(r.stamps)})
}

func (w *world) load(l Load) Happening {
	s := &w.store
	if s.down {
		return Loaded{Err: errors.New("down")}
	}
	v := s.at()
	body := s.body
	if v == l.Known {
		body = nil
	}
	if v.Revision == 0 {
		body = nil
	}
	return Loaded{Version: v, Body: body, Stamps: maps.Clone(s.stamps)}
}

func (w *world) renew(n *node, r Renew) Happening {
	s := &w.store
	switch {
	case s.down:
		return Renewed{Outcome: Unknown, Err: errors.New("down")}
	case r.Expected != s.at() && r.Expected.Revision != -1:
		w.say("%s cannot renew: the record moved", n.name)
		return Renewed{Outcome: Conflict}
	}
	next := record{s.version, s.body, maps.Clone(s.stamps)}
	var lives []string
	for _, x := range r.Stamps {
		next.stamps[x.Life] = x.Value
		lives = append(lives, x.Life)
	}
	s.commit(next)
	w.say("%s renews %s", n.name, strings.Join(lives, " "))
	return Renewed{Outcome: Done}
}

func (w *world) save(n *node, sv Save) Happening {
	s := &w.store
	if s.down {
		return Saved{Outcome: Unknown, Err: errors.New("down")}
	}
	if sv.Expected != s.at() {
		w.say("%s cannot save: the record moved", n.name)
		return Saved{Outcome: Conflict}
	}
	for _, x := range sv.Relied {
		if s.stamps[x.Life] != x.Value {
			w.say("%s cannot save: %s was renewed", n.name, x.Life)
			return Saved{Outcome: Conflict}
		}
	}
	next := record{Version{Revision: s.version.Revision + 1, Nonce: sv.Nonce}, sv.Body, maps.Clone(s.stamps)}
	for _, x := range sv.Stamps {
		next.stamps[x.Life] = x.Value
	}
	for _, life := range sv.Ended {
		delete(next.stamps, life)
	}
	s.commit(next)
	w.say("%s saves revision %d", n.name, s.version.Revision)
	return Saved{Outcome: Done, Version: s.at()}
}

func (w *world) answer(r protocol.HeartbeatResponse) string {
	var b strings.Builder
	b.WriteString(string(r.Status))
	if r.Status.RenewsLease() {
		fmt.Fprintf(&b, " %s", w.epoch(r.MemberEpoch))
		if r.Status != protocol.StatusOK {
			fmt.Fprintf(&b, " v=%s", w.epoch(protocol.Epoch(r.MetadataVersion)))
		}
		for _, s := range r.Assignment.AssignedShards {
			fmt.Fprintf(&b, " %d(%s)", s.Shard, w.epoch(s.Epoch))
		}
		if len(r.Assignment.PendingShards) > 0 {
			fmt.Fprintf(&b, " pending %v", r.Assignment.PendingShards)
		}
	}
	if r.Reason != "" {
		fmt.Fprintf(&b, " (%s)", w.relative(r.Reason))
	}
	return b.String()
}

func (w *world) relative(s string) string {
	for _, from := range slices.Backward(append([]protocol.Epoch{w.base}, w.jumps...)) {
		for e := from + 30; e >= from; e-- {
			s = strings.ReplaceAll(s, strconv.FormatInt(int64(e), 10), w.epoch(e))
		}
	}
	return s
}

func (w *world) epoch(e protocol.Epoch) string {
	if e <= 0 {
		return strconv.FormatInt(int64(e), 10)
	}
	for k := len(w.jumps); k > 0; k-- {
		if jump := w.jumps[k-1]; e >= jump {
			return fmt.Sprintf("J%d+%d", k, e-jump)
		}
	}
	return fmt.Sprintf("e%d", e-w.base)
}

func (w *world) event(e group.Event) string {
	switch e := e.(type) {
	case group.MemberJoined:
		return fmt.Sprintf("%s/%s joined", e.Member, e.Incarnation)
	case group.MemberEnded:
		return fmt.Sprintf("%s/%s ended, %s", e.Member, e.Incarnation, e.Reason)
	case group.ShardReleased:
		return fmt.Sprintf("shard %d released by %s, %s", e.Shard, e.Member, e.Cause)
	case group.CorrectionOpened:
		w.jumps = append(w.jumps, e.Jump)
		return "a correction is open: " + e.Reason
	case group.CorrectionEnded:
		return "the correction has ended"
	case group.StampsLost:
		return fmt.Sprintf("stamps of %d lives were lost", e.Lives)
	case group.ShardGranted:
		return fmt.Sprintf("shard %d granted to %s in %s", e.Shard, e.Member, w.epoch(e.Epoch))
	}
	return ""
}

func (w *world) show(t *testing.T) {
	if w.store.version.Revision == 0 {
		w.say("no record")
		return
	}
	s, err := group.Decode(w.store.body)
	if err != nil {
		t.Fatal(err)
	}
	for shard, h := range s.Ledger.Holder {
		holder := "nobody"
		if h != group.None {
			holder = s.Lives[h].Key()
		}
		w.say("shard %d is held by %s", shard, holder)
	}
	w.say("stamps of %v", slices.Sorted(maps.Keys(w.store.stamps)))
}

func TestScenarios(t *testing.T) {
	scenario.Files(t, "testdata/*.txt", func(t *testing.T, path string) {
		scenario.Run(t, path, newWorld(0).do)
	})
}

// TestEveryRuleIsNeeded switches each rule off and demands that the story of
// the rule comes out differently.
func TestEveryRuleIsNeeded(t *testing.T) {
	for rule, file := range map[rules.Rule]string{
		rules.SaveBeforeAnswer:       "save_before_answer",
		rules.ExpiryIsConditional:    "expiry_is_conditional",
		rules.RenewalIsConditional:   "renewal_is_conditional",
		rules.AnyChangeRenews:        "any_change_renews",
		rules.LossIsMarked:           "loss_is_marked",
		rules.ClockStartsWithProcess: "clock_starts_with_process",
		rules.GapRestartsClocks:      "gap_restarts_clocks",
		rules.RequestsAge:            "requests_age",
		rules.TimeoutKeepsItsEpoch:   "timeout_keeps_its_epoch",

		rules.InstanceIsNoticed:       "failover",
		rules.RingIsCompared:          "ring",
		rules.ReportIsNoticed:         "report",
		rules.CorrectionJumps:         "failover",
		rules.CorrectionGrantsNothing: "failover",
		rules.CorrectionKeepsOwned:    "failover",
		rules.CorrectionRenewsTokens:  "unread_shard_gets_a_new_token",
		rules.CorrectionWaitsSync:     "correction_waits_for_all",
		rules.CorrectionWaitsLease:    "failover",
	} {
		t.Run(fmt.Sprintf("%s without rule %d", file, rule), func(t *testing.T) {
			path := "testdata/" + file + ".txt"
			if d := scenario.Outcome(t, path, newWorld(0).do); len(d) > 0 {
				t.Fatalf("the story does not hold with all rules on: %v", d)
			}
			if d := scenario.Outcome(t, path, newWorld(rules.Without(rule)).do); len(d) == 0 {
				t.Fatalf("%s comes out the same without the rule", path)
			}
		})
	}
}
