package member

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/group"
	"github.com/redis-stream-coordinator/rsc/core/internal/rules"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// The members of these tests meet the real group, over a network that loses,
// delays, repeats and reorders, on clocks that drift, in processes that pause,
// crash and come back. The coordinator is one, and always there; many of them
// are the simulator's business.

const ms = time.Millisecond

var fastTimings = protocol.Timings{HeartbeatInterval: time.Second, Lease: 6 * time.Second, RebalanceTimeout: 15 * time.Second}

// job is something that happens at a time.
type job struct {
	at  time.Duration
	seq int
	do  func()
}

type jobs []job

func (j jobs) Len() int { return len(j) }
func (j jobs) Less(a, b int) bool {
	return j[a].at < j[b].at || (j[a].at == j[b].at && j[a].seq < j[b].seq)
}
func (j jobs) Swap(a, b int) { j[a], j[b] = j[b], j[a] }
func (j *jobs) Push(x any) {
	next, _ := x.(job)
	*j = append(*j, next)
}
func (j *jobs) Pop() any {
	last := (*j)[len(*j)-1]
	*j = (*j)[:len(*j)-1]
	return last
}

// process is one run of a member.
type process struct {
	id    string
	state State
	// rate is how fast its clock runs.
	rate  float64
	born  time.Duration
	alive bool
	// ending is true once it has died or begun to leave.
	ending bool
	// awake is when it goes on after a pause.
	awake time.Duration
	wake  int
	// reading are the shards that it reads, working those that it has work of in
	// hand although it reads them no more; both with their tokens.
	reading, working map[protocol.ShardIndex]protocol.Epoch
	// excused are shards whose handler outlives the lease or the timeout.
	excused map[protocol.ShardIndex]bool
	maxWait time.Duration
}

type schedule struct {
	rng     *rand.Rand
	rules   rules.Set
	drift   float64
	now     time.Duration
	queue   jobs
	seq     int
	group   group.State
	beats   map[string]time.Duration
	revokes map[string]map[protocol.Epoch]time.Duration
	// held are requests whose answers wait.
	held     map[string]*heldRequest
	calm     bool
	procs    []*process
	tokens   map[protocol.ShardIndex]protocol.Epoch
	trace    []string
	complain string
	// rates of faults, drawn for each seed
	loss, late, dup, retry, pause, crash, goodbye, stick float64
}

type heldRequest struct {
	p *process
	q *protocol.Heartbeat
}

func newSchedule(seed uint64, off rules.Set, drift float64) *schedule {
	s := &schedule{
		rng: rand.New(rand.NewPCG(seed, 7)), rules: off, drift: drift,
		beats: map[string]time.Duration{}, revokes: map[string]map[protocol.Epoch]time.Duration{},
		held: map[string]*heldRequest{}, tokens: map[protocol.ShardIndex]protocol.Epoch{},
	}
	// Each kind of fault is off in half of the seeds: too many at once hide
	// what each of them would show.
	rate := func(base float64) float64 {
		if s.rng.IntN(2) == 0 {
			return 0
		}
		return base * (0.2 + 2*s.rng.Float64())
	}
	s.loss, s.late, s.dup, s.retry = rate(0.12), rate(0.1), rate(0.15), rate(0.1)
	s.pause, s.crash, s.goodbye, s.stick = rate(0.03), rate(0.02), rate(0.02), rate(0.1)
	s.group = group.New("orders", "billing", 5, 1, fastTimings, epochOfStories)
	for _, id := range []string{"a", "b", "c"} {
		s.procs = append(s.procs, s.start(id))
	}
	return s
}

func (s *schedule) after(d time.Duration, do func()) {
	s.seq++
	heap.Push(&s.queue, job{s.now + d, s.seq, do})
}

func (s *schedule) logf(format string, args ...any) {
	s.trace = append(s.trace, fmt.Sprintf("%8s ", s.now.Truncate(ms))+fmt.Sprintf(format, args...))
	if len(s.trace) > 60 {
		s.trace = s.trace[len(s.trace)-60:]
	}
}

func (s *schedule) fail(format string, args ...any) {
	if s.complain == "" {
		s.complain = fmt.Sprintf(format, args...) + "\n" + strings.Join(s.trace, "\n")
	}
}

// chance draws with a probability, which is nothing once the faults are over.
func (s *schedule) chance(p float64) bool { return s.rng.Float64() < p && !s.calm }

func (s *schedule) between(low, high time.Duration) time.Duration {
	return low + time.Duration(s.rng.Int64N(int64(high-low)+1))
}

// delay is mostly short; some messages take longer than a heartbeat interval, a
// few longer than a lease.
func (s *schedule) delay() time.Duration {
	switch {
	case s.chance(s.late):
		return s.between(500*ms, 2500*ms)
	case s.chance(s.late / 10):
		return s.between(4*time.Second, 9*time.Second)
	}
	return s.between(1*ms, 40*ms)
}

func (s *schedule) start(id string) *process {
	p := &process{
		id: id, alive: true, born: s.now, rate: 1 + s.drift*(2*s.rng.Float64()-1),
		reading: map[protocol.ShardIndex]protocol.Epoch{}, working: map[protocol.ShardIndex]protocol.Epoch{},
		excused: map[protocol.ShardIndex]bool{},
	}
	if s.rng.IntN(2) == 0 {
		p.maxWait = 2 * time.Second
	}
	st, err := New(Config{MemberID: id, MaxConcurrency: 1, MaxWait: p.maxWait, Timings: fastTimings})
	if err != nil {
		panic(err)
	}
	p.state = st
	s.logf("%s starts, rate %.3f", id, p.rate)
	s.after(0, func() { s.apply(p, Tick{}) })
	return p
}

func (s *schedule) clock(p *process) time.Duration {
	return time.Duration(float64(s.now-p.born) * p.rate)
}

// apply drives a member.
func (s *schedule) apply(p *process, cmd Command) {
	if !p.alive {
		return
	}
	if s.now < p.awake {
		s.after(p.awake-s.now, func() { s.apply(p, cmd) })
		return
	}
	in := Input{
		Mono: s.clock(p), Wall: epochOfStories.Add(s.clock(p)),
		ID: fmt.Sprintf("%s-%d", p.id, s.rng.Uint64()), Rules: s.rules,
	}
	next, r, events, err := Apply(p.state, in, cmd)
	if err != nil {
		s.fail("%s: %v", p.id, err)
		return
	}
	p.state = next
	if s.rules == 0 {
		if complaint := broken(&next, r, in); complaint != "" {
			s.fail("%s: %s", p.id, complaint)
		}
	}
	for _, e := range events {
		s.logf("%s %+v", p.id, e)
		s.happened(p, e)
	}
	if r.Send != nil {
		s.send(p, r.Send)
	}
	if r.Done {
		return
	}
	p.wake++
	mine := p.wake
	s.after(time.Duration(float64(r.WakeAt-in.Mono)/p.rate)+1, func() {
		if p.wake == mine {
			s.apply(p, Tick{})
		}
	})
	s.check()
}

func (s *schedule) happened(p *process, e Event) {
	switch e := e.(type) {
	case Assigned:
		if e.Token < s.tokens[e.Shard] {
			s.fail("%s: shard %d has token %d after %d", p.id, e.Shard, e.Token, s.tokens[e.Shard])
		}
		if _, busy := p.working[e.Shard]; busy {
			s.fail("%s: shard %d is started while it is being let go of", p.id, e.Shard)
		}
		s.tokens[e.Shard] = e.Token
		p.reading[e.Shard] = e.Token
		p.excused[e.Shard] = false
	case Revoked:
		delete(p.reading, e.Shard)
		p.working[e.Shard] = e.Token
		s.letGo(p, e.Shard, e.Token)
	case Lost:
		_, reading := p.reading[e.Shard]
		delete(p.reading, e.Shard)
		p.working[e.Shard] = e.Token
		// A handler that does not end although it was cancelled: the design
		// promises nothing for it.
		p.excused[e.Shard] = true
		if reading {
			s.letGo(p, e.Shard, e.Token)
		}
	case Left:
		if len(p.reading) > 0 {
			s.fail("%s left and reads on", p.id)
		}
	}
}

// letGo ends the work on a shard after a while.
func (s *schedule) letGo(p *process, shard protocol.ShardIndex, token protocol.Epoch) {
	d := s.between(0, 300*ms)
	if s.chance(s.stick) {
		d = s.between(time.Second, 25*time.Second)
		if d > fastTimings.RebalanceTimeout-time.Second {
			p.excused[shard] = true
		}
	}
	s.after(d, func() {
		// A paused process does not get on with its work.
		s.whenAwake(p, func() {
			if p.working[shard] == token {
				delete(p.working, shard)
				s.apply(p, Released{Shard: shard, Token: token})
			}
		})
	})
}

func (s *schedule) whenAwake(p *process, do func()) {
	switch {
	case !p.alive:
	case s.now < p.awake:
		s.after(p.awake-s.now, func() { s.whenAwake(p, do) })
	default:
		do()
	}
}

func (s *schedule) send(p *process, q *protocol.Heartbeat) {
	s.logf("%s sends e=%d owned=%v revoking=%v stopped=%q", p.id, q.MemberEpoch, q.OwnedShards, q.RevokingShards, q.StoppedIncarnation)
	deliver := func() {
		if !s.chance(s.loss) {
			s.after(s.delay(), func() { s.arrive(p, q) })
		}
	}
	deliver()
	if s.chance(s.dup) {
		deliver()
	}
}

func (s *schedule) reply(p *process, r protocol.HeartbeatResponse) {
	deliver := func() {
		if !s.chance(s.loss) {
			s.after(s.delay(), func() { s.apply(p, Answer{&r}) })
		}
	}
	deliver()
	if s.chance(s.dup) {
		deliver()
	}
}

// arrive is the coordinator.
func (s *schedule) arrive(p *process, q *protocol.Heartbeat) {
	if s.chance(s.retry) {
		s.reply(p, protocol.NewHeartbeatResponse(q, protocol.StatusRetry, "the store is away", fastTimings))
		return
	}
	before := s.epochOf(q)
	a := s.change(group.Beat{Request: q}).Answers[0]
	if a.Life != "" {
		s.beats[a.Life] = s.now
	}
	key := group.LifeKey(q.MemberID, q.Incarnation)
	if old := s.held[key]; old != nil {
		// A newer request releases the one that is held.
		delete(s.held, key)
		s.answer(old)
	}
	if a.Status == protocol.StatusOK && q.MaxWaitMs > 0 && a.MemberEpoch == q.MemberEpoch && before == q.MemberEpoch {
		h := &heldRequest{p, q}
		s.held[key] = h
		s.after(time.Duration(q.MaxWaitMs)*ms, func() {
			if s.held[key] == h {
				delete(s.held, key)
				s.answer(h)
			}
		})
		return
	}
	s.reply(p, a.HeartbeatResponse)
}

func (s *schedule) epochOf(q *protocol.Heartbeat) protocol.Epoch {
	if l, found := group.NewView(&s.group).Life(group.LifeKey(q.MemberID, q.Incarnation)); found {
		return l.Epoch
	}
	return 0
}

// answer answers a held request from the saved state.
func (s *schedule) answer(h *heldRequest) {
	v := group.NewView(&s.group)
	key := group.LifeKey(h.q.MemberID, h.q.Incarnation)
	if l, found := v.Life(key); found && l.State == group.Active {
		s.reply(h.p, v.Answer(h.q, key))
		return
	}
	s.reply(h.p, protocol.NewHeartbeatResponse(h.q, protocol.StatusFencedEpoch, "", fastTimings))
}

// change applies a command to the group with the verdicts that are due.
func (s *schedule) change(cmd group.Command) group.Response {
	in := group.Input{
		Now: epochOfStories.Add(s.now), ID: fmt.Sprint(s.rng.Uint64()),
		Expired: map[string]bool{}, Overdue: map[string]protocol.Epoch{},
	}
	for i := range s.group.Lives {
		key := s.group.Lives[i].Key()
		if _, tick := cmd.(group.Tick); tick && s.now-s.beats[key] >= fastTimings.Lease {
			in.Expired[key] = true
		}
		for e, at := range s.revokes[key] {
			if s.now-at > fastTimings.RebalanceTimeout {
				in.Overdue[key] = max(in.Overdue[key], e)
			}
		}
	}
	next, r, events, err := group.Apply(s.group, in, cmd)
	if err != nil {
		s.fail("the group: %v", err)
		return group.Response{Answers: make([]group.Answer, 1)}
	}
	for _, e := range events {
		s.logf("group %+v", e)
	}
	s.group = next
	s.observe()
	return r
}

// observe notes new lives and revocations, and answers held requests for which
// something changed.
func (s *schedule) observe() {
	for i := range s.group.Lives {
		l := &s.group.Lives[i]
		key := l.Key()
		if _, known := s.beats[key]; !known {
			s.beats[key], s.revokes[key] = s.now, map[protocol.Epoch]time.Duration{}
		}
		for shard, h := range s.group.Ledger.Holder {
			if e := s.group.Ledger.Revoke[shard]; int(h) == i && e != 0 {
				if _, known := s.revokes[key][e]; !known {
					s.revokes[key][e] = s.now
				}
			}
		}
		if h := s.held[key]; h != nil && l.Epoch != h.q.MemberEpoch {
			delete(s.held, key)
			s.answer(h)
		}
	}
}

// check looks for two readers of a shard, and for a reader beside somebody who
// still works on it and is not excused.
func (s *schedule) check() {
	for shard := range protocol.ShardIndex(5) {
		reader := ""
		for _, p := range s.procs {
			if _, reads := p.reading[shard]; reads && s.mayRead(p) {
				if reader != "" {
					s.fail("shard %d is read by %s and %s", shard, reader, p.id)
				}
				reader = p.id
			}
		}
		for _, p := range s.procs {
			_, works := p.working[shard]
			if works && s.mayRead(p) && reader != "" && reader != p.id && !p.excused[shard] {
				s.fail("shard %d is read by %s while %s works on it", shard, reader, p.id)
			}
		}
	}
}

// mayRead reports whether a process gets to read: it runs, and looks at its
// lease before each read, as every driver must. It wakes from a pause with
// whatever it was about to do.
func (s *schedule) mayRead(p *process) bool {
	if !p.alive || s.now < p.awake {
		return false
	}
	mono, _, held := p.state.Lease()
	return s.rules.Off(rules.SelfFencing) || (held && s.clock(p) < mono)
}

// trouble does something to a process now and then.
func (s *schedule) trouble() {
	for i, p := range s.procs {
		switch {
		case p.ending:
		case s.chance(s.pause):
			d := s.between(time.Second, 4*time.Second)
			if s.rng.IntN(3) == 0 {
				d = s.between(5*time.Second, 15*time.Second)
			}
			p.awake = s.now + d
			s.logf("%s pauses for %s", p.id, d)
		case s.chance(s.crash):
			s.logf("%s dies", p.id)
			p.alive, p.ending = false, true
			s.after(s.between(50*ms, 10*time.Second), func() { s.procs[i] = s.start(p.id) })
		case s.chance(s.goodbye):
			p.ending = true
			s.apply(p, Leave{Within: 10 * time.Second})
			s.after(s.between(11*time.Second, 14*time.Second), func() {
				p.alive = false
				s.procs[i] = s.start(p.id)
			})
		}
	}
}

func (s *schedule) every(d time.Duration, do func()) {
	s.after(d, func() {
		do()
		s.every(d, do)
	})
}

func (s *schedule) run(until time.Duration) {
	for s.complain == "" && len(s.queue) > 0 && s.queue[0].at <= until {
		j, _ := heap.Pop(&s.queue).(job)
		s.now = j.at
		j.do()
		s.check()
	}
	s.now = until
}

func (s *schedule) play() string {
	s.every(200*ms, func() { s.change(group.Tick{}) })
	s.every(700*ms, s.trouble)
	s.run(90 * time.Second)
	s.calm = true
	s.run(160 * time.Second)
	if s.complain != "" {
		return s.complain
	}
	return s.settled()
}

// settled checks that every shard is read, and nobody reads two more than
// another.
func (s *schedule) settled() string {
	read := map[protocol.ShardIndex]string{}
	least, most := 5, 0
	for _, p := range s.procs {
		for shard := range p.reading {
			read[shard] = p.id
		}
		least, most = min(least, len(p.reading)), max(most, len(p.reading))
	}
	if len(read) != 5 || most-least > 1 {
		return fmt.Sprintf("not settled: read %v, between %d and %d each\n%s", read, least, most, strings.Join(s.trace, "\n"))
	}
	return ""
}

func TestSchedules(t *testing.T) {
	seeds := uint64(50)
	if testing.Short() {
		seeds = 20
	}
	for seed := range seeds {
		if complaint := newSchedule(seed, 0, 0.04).play(); complaint != "" {
			t.Fatalf("seed %d: %s", seed, complaint)
		}
	}
}

// TestSchedulesFindBrokenRules shows that the schedules would notice: without
// each of these rules one of them fails. (That a lease is never resumed has its
// story only: an answer that renews counts from the sending, so one reader per
// shard survives without that rule as long as there is one coordinator.)
func TestSchedulesFindBrokenRules(t *testing.T) {
	for _, tc := range []struct {
		name  string
		rule  rules.Rule
		drift float64
		seeds uint64
	}{
		{"only the answer to the latest request counts", rules.MatchAnswer, 0.04, 400},
		{"RETRY renews nothing", rules.RetryRenewsNothing, 0.04, 400},
		{"the lease runs from the sending", rules.LeaseFromSending, 0.04, 400},
		{"a margin is taken off the lease", rules.LeaseMargin, 0.12, 400},
		{"the member stops by itself", rules.SelfFencing, 0.04, 400},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for seed := range tc.seeds {
				if complaint := newSchedule(seed, rules.Without(tc.rule), tc.drift).play(); complaint != "" {
					first, _, _ := strings.Cut(complaint, "\n")
					t.Logf("seed %d: %s", seed, first)
					return
				}
			}
			t.Errorf("%d schedules went well without the rule", tc.seeds)
		})
	}
}

func TestSchedulesReplay(t *testing.T) {
	for seed := range uint64(5) {
		a, b := newSchedule(seed, 0, 0.04), newSchedule(seed, 0, 0.04)
		a.play()
		b.play()
		if strings.Join(a.trace, "\n") != strings.Join(b.trace, "\n") {
			t.Fatalf("seed %d goes another way the second time", seed)
		}
	}
}
