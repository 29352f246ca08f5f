package demo

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// evidence is all that is known of a run when it is over: what the producer was
// told, what the consumers told, what lies in Redis, and what was done to them.
type evidence struct {
	// acknowledged are the records that Redis confirmed, each once.
	acknowledged []sent
	// uncertain were sent without an answer and may be stored; refused were
	// certainly not stored. Neither has a place.
	uncertain, refused []content
	// stored are all records of all shards at the end, but for the shards that are gone.
	stored []stored
	gone   []int
	// pending and unread are what the consumer group has been given and not
	// acknowledged, and what it was never given.
	pending, unread int

	handled []handling
	// kills are the consumers that were killed, and when.
	kills map[string]time.Duration
	// restart is when a coordinator was away: from the moment it was told to stop
	// until its successor answered, and the time after that in which members find
	// it.
	restart window
	// rebalances counts the targets that the coordinator computed.
	rebalances int
	// reshards counts the changes of the shard count that were done.
	reshards int

	bounds bounds
}

// bounds are what a run must keep to.
type bounds struct {
	handover     time.Duration
	takeover     time.Duration
	restartPause time.Duration
}

// window is a stretch of time.
type window struct{ from, to time.Duration }

// meets reports whether the stretch from a to b has something of the window.
func (w window) meets(a, b time.Duration) bool { return a < w.to && b > w.from }

// account works the evidence up; complaints is empty when everything is as it
// must be. It changes the order of e.handled.
func account(e *evidence) (f Figures, complaints []string) {
	a := newAccounts(e)
	a.checkStored()
	a.checkHandled()
	a.checkHolders()
	a.checkOrder()
	a.checkRestart()
	a.checkBounds()
	return a.figures, a.complaints
}

// accounts is an accounting under way.
type accounts struct {
	*evidence
	figures    Figures
	complaints []string

	records map[place]*record
	// shards are the handlings of each shard, by their start.
	shards map[int][]*handling
}

// record is what is known of one record.
type record struct {
	content
	// at is when it could certainly be read; 0 when that is not known.
	at time.Duration
	// handlings are by their start.
	handlings []*handling
}

func newAccounts(e *evidence) *accounts {
	a := &accounts{evidence: e, records: make(map[place]*record, len(e.stored)), shards: map[int][]*handling{}}
	a.figures.Produced = len(e.acknowledged)
	a.figures.Rebalances, a.figures.Reshards = e.rebalances, e.reshards
	a.recall()
	slices.SortFunc(e.handled, func(x, y handling) int {
		return cmp.Or(cmp.Compare(x.start, y.start), cmp.Compare(x.token, y.token), cmp.Compare(x.end, y.end))
	})
	for i := range e.handled {
		h := &e.handled[i]
		a.shards[h.shard] = append(a.shards[h.shard], h)
	}
	return a
}

// recall adds what lay in the shards that are gone: what was acknowledged there, and what
// was handled from there. Nobody can look any more, and nobody has to: a shard goes when
// it is empty, so a record of it that nobody handled was lost.
func (a *accounts) recall() {
	known := map[place]bool{}
	add := func(p place, c content) {
		if slices.Contains(a.gone, p.shard) && !known[p] {
			known[p] = true
			a.stored = append(a.stored, stored{p, c})
		}
	}
	for _, s := range a.acknowledged {
		add(s.place, s.content)
	}
	for i := range a.handled {
		add(a.handled[i].place, a.handled[i].content)
	}
}

func (a *accounts) complain(format string, args ...any) {
	a.complaints = append(a.complaints, fmt.Sprintf(format, args...))
}

// tally counts what is wrong in one way, and remembers the first case.
type tally struct {
	count int
	first string
}

func (t *tally) add(what fmt.Stringer) {
	if t.count == 0 {
		t.first = what.String()
	}
	t.count++
}

// complainIf complains when there is something; format takes the count and the
// first case.
func (a *accounts) complainIf(t tally, format string) {
	if t.count > 0 {
		a.complain(format, t.count, t.first)
	}
}

// checkStored compares what the producer was told with what lies in Redis.
func (a *accounts) checkStored() {
	for _, s := range a.stored {
		a.records[s.place] = &record{content: s.content}
	}
	var vanished, other, unasked, denied tally
	known := make(map[place]bool, len(a.acknowledged))
	for _, s := range a.acknowledged {
		known[s.place] = true
		switch r := a.records[s.place]; {
		case r == nil:
			vanished.add(s)
		case r.content != s.content:
			other.add(s)
		default:
			r.at = s.at
		}
	}
	uncertain, refused := set(a.uncertain), set(a.refused)
	for _, s := range a.stored {
		switch {
		case known[s.place]:
		case uncertain[s.content]:
			a.figures.UncertainStored++
		case refused[s.content]:
			denied.add(s)
		default:
			unasked.add(s)
		}
	}
	a.figures.Uncertain = len(a.uncertain)
	a.complainIf(vanished, "%d records were acknowledged by Redis and are not in it at the end, the first of them %s")
	a.complainIf(other, "%d records lie in Redis with another content than was sent, the first of them %s")
	a.complainIf(unasked, "%d records lie in Redis that the producer did not send, the first of them %s")
	a.complainIf(denied, "%d records lie in Redis although the producer was told that they were not stored, the first of them %s")
	if n := len(a.refused); n > 0 {
		a.complain("%d records could not be published, the first of them %s", n, a.refused[0])
	}
	if a.pending > 0 {
		a.complain("%d records are still pending in the consumer group: they were handed out and not acknowledged", a.pending)
	}
	if a.unread > 0 {
		a.complain("%d records were never handed out by the consumer group", a.unread)
	}
}

func set(list []content) map[content]bool {
	s := make(map[content]bool, len(list))
	for _, c := range list {
		s[c] = true
	}
	return s
}

// String names the record.
func (s sent) String() string { return s.content.String() + " (" + s.place.String() + ")" }

// String names the record.
func (s stored) String() string { return s.content.String() + " (" + s.place.String() + ")" }

// String names the record and who had it.
func (h *handling) String() string {
	return fmt.Sprintf("%s (%s) at %s with token %d after %d ms", h.content, h.place, h.member, h.token, h.start.Milliseconds())
}

// checkHandled compares what lies in Redis with what was handled.
func (a *accounts) checkHandled() {
	var strange, unexplained, lost tally
	for i := range a.handled {
		h := &a.handled[i]
		r := a.records[h.place]
		if r == nil || r.content != h.content {
			strange.add(h)
			continue
		}
		r.handlings = append(r.handlings, h)
		if n := len(r.handlings); n > 1 {
			a.figures.Duplicates++
			if !a.killedBetween(r.handlings[n-2], h) {
				unexplained.add(h)
			}
		}
	}
	for _, s := range a.stored {
		if len(a.records[s.place].handlings) == 0 {
			lost.add(s)
			continue
		}
		a.figures.Processed++
	}
	a.figures.Lost = lost.count
	a.complainIf(lost, "%d records were lost: they were stored and nobody handled them, the first of them %s")
	a.complainIf(strange, "%d records were handled that do not lie in Redis with that content, the first of them %s")
	a.complainIf(unexplained, "%d records were handled again although their first consumer was not killed, the first of them %s")
}

// killedBetween reports whether the consumer of the earlier handling was killed
// before the later one began: it may have died between handling a record and
// acknowledging it. Nothing else explains a second handling.
func (a *accounts) killedBetween(earlier, later *handling) bool {
	at, killed := a.kills[earlier.member]
	return killed && earlier.member != later.member && later.start >= at
}

// checkOrder looks at each key in each shard: a record must be done before the next one
// of its key begins, and one stay of a shard never goes back. Order is promised for a key
// while the shard count stays the same. A change of the count may send it to another
// shard, which has its own reader: there it begins anew, and what is left of it in the
// shard before is handled at the same time. What is lost or handled twice is looked for
// in all shards together.
func (a *accounts) checkOrder() {
	type lane struct{ shard, key int }
	type life struct {
		holder
		lane
	}
	var wrong tally
	firsts := map[lane][]*handling{}
	last := map[life]int{}
	for i := range a.handled {
		h := &a.handled[i]
		l := life{h.holder(), lane{h.shard, h.key}}
		again := h.seq <= last[l]
		if again {
			wrong.add(h)
		}
		last[l] = max(last[l], h.seq)
		if r := a.records[h.place]; r != nil && len(r.handlings) > 0 && r.handlings[0] == h && !again {
			firsts[l.lane] = append(firsts[l.lane], h)
		}
	}
	for _, l := range slices.SortedFunc(maps.Keys(firsts), func(x, y lane) int {
		return cmp.Or(cmp.Compare(x.key, y.key), cmp.Compare(x.shard, y.shard))
	}) {
		list := firsts[l]
		slices.SortFunc(list, func(x, y *handling) int { return cmp.Compare(x.seq, y.seq) })
		for i := 1; i < len(list); i++ {
			if list[i].start < list[i-1].end {
				wrong.add(list[i])
			}
		}
	}
	a.figures.OrderViolations = wrong.count
	a.complainIf(wrong, "%d records were handled out of the order of their key, the first of them %s")
}

// checkRestart takes down how long records waited around the restart of the
// coordinator on shards that stayed where they were.
func (a *accounts) checkRestart() {
	if a.restart == (window{}) {
		return
	}
	f := &a.figures
	for _, shard := range slices.Sorted(maps.Keys(a.shards)) {
		var busy time.Duration // until when somebody was at work
		var before *handling
		watched := false
		for _, h := range a.shards[shard] {
			idle := max(busy, a.available(h))
			if before != nil && before.holder() == h.holder() && a.restart.meets(min(idle, h.start), h.end) {
				watched = true
				f.RestartPause = max(f.RestartPause, h.start-idle)
			}
			busy, before = max(busy, h.end), h
		}
		if watched {
			f.Steady++
		}
	}
}

// checkBounds holds what was measured against what it may be, and refuses a run
// in which nothing was measured.
func (a *accounts) checkBounds() {
	f := &a.figures
	if f.Produced == 0 {
		a.complain("nothing was produced")
	}
	if f.Rebalances == 0 {
		a.complain("the coordinator told of no rebalance")
	}
	if f.Handovers == 0 {
		a.complain("no shard was seen to go from one living consumer to another")
	}
	if f.Handover > a.bounds.handover {
		a.complain("a shard was idle for %d ms on its way from one living consumer to another, at most %d ms are allowed", f.Handover.Milliseconds(), a.bounds.handover.Milliseconds())
	}
	if len(a.kills) > 0 && f.Takeovers == 0 {
		a.complain("no shard of the consumer that was killed was seen in other hands")
	}
	if f.Takeover > a.bounds.takeover {
		a.complain("the shards of the consumer that was killed were idle for %d ms, at most %d ms are allowed", f.Takeover.Milliseconds(), a.bounds.takeover.Milliseconds())
	}
	if a.restart != (window{}) && f.Steady == 0 {
		a.complain("no shard was seen at work while the coordinator was restarted")
	}
	if f.RestartPause > a.bounds.restartPause {
		a.complain("a shard that stayed where it was paused for %d ms while the coordinator was restarted, at most %d ms are allowed", f.RestartPause.Milliseconds(), a.bounds.restartPause.Milliseconds())
	}
}
