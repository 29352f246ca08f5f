package sim

import (
	"container/heap"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/internal/rules"
)

// world is one schedule in progress.
type world struct {
	shape Shape
	rules rules.Set
	rng   *rand.Rand
	now   time.Duration
	queue jobs
	seq   uint64
	ids   uint64
	calm  bool
	steps int
	// settled is set by a step that changes nothing of who reads what.
	settled bool

	// groups are the names of the groups, seats those who are to be members of them.
	groups []string
	seats  []seat

	store   *store
	coords  []*coordinator
	clients []client
	streams *streams
	// cuts are directions in which messages get lost until a time.
	cuts map[cut]time.Duration

	watch  watch
	counts Counts
	trace  trace
}

type cut struct{ from, to string }

// seat is a member of a group, whichever process it is at the moment.
type seat struct{ group, member string }

// wallStart is the wall time at the beginning of every schedule.
var wallStart = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// maxSteps bounds a schedule: one that needs more goes round in circles.
const maxSteps = 500_000

// job is something that happens at a time.
type job struct {
	at  time.Duration
	seq uint64
	do  func()
}

type jobs []job

func (j jobs) Len() int { return len(j) }
func (j jobs) Less(a, b int) bool {
	if j[a].at != j[b].at {
		return j[a].at < j[b].at
	}
	return j[a].seq < j[b].seq
}
func (j jobs) Swap(a, b int) { j[a], j[b] = j[b], j[a] }

// Push and Pop are for package heap.
func (j *jobs) Push(x any) {
	if next, ok := x.(job); ok {
		*j = append(*j, next)
	}
}

// Pop removes the last job.
func (j *jobs) Pop() any {
	old := *j
	last := old[len(old)-1]
	*j = old[:len(old)-1]
	return last
}

func (w *world) after(d time.Duration, do func()) {
	w.seq++
	heap.Push(&w.queue, job{w.now + max(0, d), w.seq, do})
}

func (w *world) id(kind string) string {
	w.ids++
	return fmt.Sprintf("%s%d", kind, w.ids)
}

// chance draws with a probability; once the faults are over it is always false.
func (w *world) chance(p float64) bool {
	return p > 0 && !w.calm && w.rng.Float64() < p
}

// between draws a duration.
func (w *world) between(low, high time.Duration) time.Duration {
	return low + time.Duration(w.rng.Int64N(int64(high-low)+1))
}

// perSecond is the chance of something in the time of one round of faults, from
// its rate per second.
const faultRound = 250 * time.Millisecond

func (w *world) perSecond(rate float64) bool {
	return w.chance(rate * faultRound.Seconds())
}

// delay draws the time that a message takes: mostly short, sometimes up to a
// heartbeat interval, seldom longer than a lease.
func (w *world) delay() time.Duration {
	t := w.shape.Timings
	switch {
	case w.chance(w.shape.Late):
		return w.between(t.Lease/2, 2*t.Lease)
	case w.chance(w.shape.Middle):
		return w.between(t.HeartbeatInterval/4, t.HeartbeatInterval*3/2)
	default:
		return w.between(time.Millisecond, t.HeartbeatInterval/4)
	}
}

// transmit delivers a message between two processes, or loses it, or delivers
// it twice.
func (w *world) transmit(from, to string, deliver func()) {
	copies := 1
	if w.chance(w.shape.Repeat) {
		copies++
		w.counts.Repeated++
	}
	for range copies {
		if w.chance(w.shape.Lose) || (!w.calm && w.now < w.cuts[cut{from, to}]) {
			w.counts.Lost++
			continue
		}
		w.after(w.delay(), deliver)
	}
}

// run plays the schedule to its end and returns what was found.
func (w *world) run() {
	w.begin()
	w.after(faultRound, w.faults)
	w.after(w.shape.Faulty, func() {
		w.calm = true
		w.store.endDrains()
		w.logf("the faults are over")
		w.mend()
	})
	end := w.shape.Faulty + w.shape.Settle
	for len(w.queue) > 0 && w.watch.violation == "" {
		next, ok := heap.Pop(&w.queue).(job)
		if !ok || next.at > end {
			break
		}
		w.now = next.at
		if w.steps++; w.steps > maxSteps {
			w.violate("the schedule does not end: %d steps", w.steps)
			break
		}
		w.settled = false
		next.do()
		if !w.settled {
			w.check()
		}
	}
	if w.watch.violation == "" {
		w.now = end
		w.final()
	}
}

func (w *world) begin() {
	w.watch.groups = map[string]*groupWatch{}
	w.groups = groupNames[:max(1, w.shape.Groups)]
	for i, group := range w.groups {
		for m := range w.shape.Members {
			name := string(rune('a' + m))
			if i > 0 {
				name = group + name
			}
			w.seats = append(w.seats, seat{group, name})
		}
	}
	w.store = newStore(w)
	w.beginStreams()
	for i := range w.shape.Coordinators {
		c := &coordinator{w: w, name: fmt.Sprintf("c%d", i+1)}
		w.coords = append(w.coords, c)
		c.start()
	}
	for _, seat := range w.seats {
		w.after(w.between(0, 3*time.Second), func() { w.spawn(seat.member) })
	}
}

// groupNames are the names that groups get, as many as there are to be.
var groupNames = []string{"g", "h", "k"}

// groupOf returns the group of a member.
func (w *world) groupOf(member string) string {
	i := slices.IndexFunc(w.seats, func(s seat) bool { return s.member == member })
	return w.seats[i].group
}

// faults draws what goes wrong in the next round.
func (w *world) faults() {
	if w.calm {
		return
	}
	s := w.shape
	for _, c := range w.coords {
		if c.up && w.perSecond(s.CoordCrash) {
			c.crash()
		}
	}
	for _, p := range w.clients {
		w.clientFaults(p)
	}
	if w.perSecond(s.Cut) && len(w.clients) > 0 {
		w.cutOff()
	}
	if w.perSecond(s.Away) {
		w.store.awayUntil = w.now + w.between(time.Second, 2*s.Timings.Lease)
		w.counts.Outages++
		w.logf("the store is away")
	}
	if w.perSecond(s.Failover) {
		w.store.failover()
	}
	if w.perSecond(s.Recreate) {
		w.store.recreate()
	}
	if w.perSecond(s.Retime) {
		w.store.retime()
	}
	if s.Drain > 0 && w.perSecond(s.Drain) {
		w.store.drain()
	}
	if w.perSecond(s.LoseStamps) {
		w.store.loseStamps()
	}
	w.streamFaults()
	w.after(faultRound, w.faults)
}

func (w *world) clientFaults(p client) {
	s := w.shape
	if !p.running() {
		return
	}
	switch {
	case w.perSecond(s.Crash):
		name := p.member()
		w.logf("%s crashes", p.name())
		p.crash()
		w.counts.Crashes++
		back := w.between(10*time.Millisecond, s.Timings.Lease/2)
		if w.rng.IntN(3) == 0 {
			back = w.between(s.Timings.Lease/2, 3*s.Timings.Lease)
		}
		w.after(back, func() { w.spawn(name) })
	case w.perSecond(s.Leave):
		name := p.member()
		w.logf("%s leaves", p.name())
		p.leave()
		w.counts.Leaves++
		w.after(w.between(100*time.Millisecond, 4*time.Second), func() { w.spawn(name) })
	case w.perSecond(s.Pause) && !p.paused():
		long := s.Timings.Lease
		switch w.rng.IntN(3) {
		case 0:
			long /= 2
		case 1:
			long = 2 * long
		}
		w.logf("%s pauses for about %s", p.name(), long)
		p.pause(w.now + w.between(long*9/10, long*11/10))
		w.counts.Pauses++
	case w.perSecond(s.Twin) && w.namesakes(p.member()) == 1:
		w.logf("a twin of %s starts", p.name())
		w.counts.Twins++
		w.start(p.member())
	}
}

// namesakes counts the running processes of a member.
func (w *world) namesakes(member string) int {
	n := 0
	for _, p := range w.clients {
		if p.member() == member && p.running() {
			n++
		}
	}
	return n
}

func (w *world) cutOff() {
	p := w.clients[w.rng.IntN(len(w.clients))]
	c := w.coords[w.rng.IntN(len(w.coords))]
	long := w.between(time.Second, 2*w.shape.Timings.Lease)
	from, to := p.name(), c.name
	if w.rng.IntN(2) == 0 {
		from, to = to, from
	}
	w.cuts[cut{from, to}] = w.now + long
	w.counts.Cuts++
	w.logf("messages from %s to %s get lost for %s", from, to, long.Truncate(time.Millisecond))
}

// mend ends what is still broken when the faults are over: everybody runs, and
// of each name one process only.
func (w *world) mend() {
	w.store.awayUntil = 0
	for _, c := range w.coords {
		c.pausedUntil = min(c.pausedUntil, w.now)
		if !c.up {
			c.start()
		}
		c.wakeUp()
	}
	newest := map[string]client{}
	for _, p := range w.clients {
		if p.running() {
			newest[p.member()] = p
		}
	}
	for _, p := range w.clients {
		if p.running() {
			p.pause(w.now)
			if newest[p.member()] != p {
				p.crash()
			}
		}
	}
	for _, seat := range w.seats {
		w.spawn(seat.member)
	}
	w.mendStreams()
}

// spawn starts a process of a member unless one is running.
func (w *world) spawn(member string) {
	if w.namesakes(member) == 0 {
		w.start(member)
	}
}

func (w *world) start(member string) {
	live := w.clients[:0:0]
	for _, p := range w.clients {
		if !p.gone() {
			live = append(live, p)
		}
	}
	w.clients = live
	name := w.id(member)
	if w.shape.Legacy > 0 && w.rng.Float64() < w.shape.Legacy {
		w.clients = append(w.clients, newLegacy(w, w.groupOf(member), member, name))
		return
	}
	w.clients = append(w.clients, newProcess(w, w.groupOf(member), member, name))
}

// trace is what is told of a failing seed, and the hash that shows that a seed
// replays.
type trace struct {
	keep  int
	lines []string
	hash  uint64
}

func (w *world) logf(format string, args ...any) {
	line := fmt.Sprintf("%9.3f %s", w.now.Seconds(), fmt.Sprintf(format, args...))
	h := fnv.New64a()
	// A hash never fails to write.
	_, _ = h.Write([]byte(line))
	w.trace.hash = w.trace.hash*1099511628211 ^ h.Sum64()
	if w.trace.keep == 0 {
		return
	}
	w.trace.lines = append(w.trace.lines, line)
	if len(w.trace.lines) > 2*w.trace.keep {
		w.trace.lines = append(w.trace.lines[:0], w.trace.lines[len(w.trace.lines)-w.trace.keep:]...)
	}
}

func (t *trace) text() string { return strings.Join(t.lines, "\n") }
