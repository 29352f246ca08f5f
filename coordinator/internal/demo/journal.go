package demo

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// journal takes down what the producer and the consumers tell. Its methods are
// safe for concurrent use.
type journal struct {
	began time.Time
	// moved is told of each shard that is seen with another holder.
	moved func(move)

	mu                 sync.Mutex
	acknowledged       []sent
	uncertain, refused []content
	refusal            error // the first
	handled            []handling
	byMember           map[string]int
	shards             []shardTrace
	rebalances         int
	unreadable         error // the first line that could not be read
}

// shardTrace is what was last seen on a shard.
type shardTrace struct {
	holder
	produced, handled int
	// end is when the last record was done, since when this holder has it.
	end, since time.Duration
}

// move is a shard that was seen with a new holder.
type move struct {
	shard    int
	from, to string
	// idle is the time between the last record of one and the first of the other.
	idle time.Duration
}

func newJournal(began time.Time, shards int, moved func(move)) *journal {
	return &journal{began: began, moved: moved, byMember: map[string]int{}, shards: make([]shardTrace, shards)}
}

// now is the time of the accounting: since the start, on the wall clock that
// this machine's processes share.
func (j *journal) now() time.Duration {
	return time.Duration(time.Now().UnixNano() - j.began.UnixNano())
}

// drift is how far the wall clock was set since the start.
func (j *journal) drift() time.Duration {
	return (j.now() - time.Since(j.began)).Abs()
}

// line takes down a line of a member.
func (j *journal) line(member, line string) {
	h, err := parseLine(member, line, j.began)
	var seen *move
	j.mu.Lock()
	switch {
	case err != nil && j.unreadable == nil:
		j.unreadable = err
	case err != nil:
	default:
		j.handled = append(j.handled, h)
		j.byMember[member]++
		seen = j.trace(&h)
	}
	j.mu.Unlock()
	if seen != nil && j.moved != nil {
		j.moved(*seen)
	}
}

// trace follows the shard of h; it returns a move if there was one.
func (j *journal) trace(h *handling) *move {
	if h.shard < 0 || h.shard >= len(j.shards) {
		return nil
	}
	t := &j.shards[h.shard]
	t.handled++
	before := *t
	if h.token < t.token {
		return nil // of an earlier holder, told late
	}
	t.end = max(t.end, h.end)
	if before.holder == h.holder() {
		return nil
	}
	t.holder, t.since = h.holder(), h.start
	if before.member == "" || before.member == h.member {
		return nil
	}
	return &move{shard: h.shard, from: before.member, to: h.member, idle: max(0, h.start-before.end)}
}

// stored takes down a record that Redis acknowledged.
func (j *journal) stored(s sent) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.acknowledged = append(j.acknowledged, s)
	if s.shard >= 0 && s.shard < len(j.shards) {
		j.shards[s.shard].produced++
	}
}

// failed takes down a record that was not acknowledged; it may be stored all
// the same when that is uncertain.
func (j *journal) failed(c content, uncertain bool, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if uncertain {
		j.uncertain = append(j.uncertain, c)
		return
	}
	if j.refusal == nil {
		j.refusal = err
	}
	j.refused = append(j.refused, c)
}

// rebalanced takes down that the coordinator computed a new target.
func (j *journal) rebalanced() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.rebalances++
}

// counts are how far the run has come.
type counts struct {
	produced, handled int
	byMember          map[string]int
	shards            []shardTrace
}

func (j *journal) counts() counts {
	j.mu.Lock()
	defer j.mu.Unlock()
	return counts{produced: len(j.acknowledged), handled: len(j.handled), byMember: maps.Clone(j.byMember), shards: slices.Clone(j.shards)}
}

// evidence hands over what was taken down. Nothing is taken down afterwards.
func (j *journal) evidence() *evidence {
	j.mu.Lock()
	defer j.mu.Unlock()
	return &evidence{
		acknowledged: j.acknowledged, uncertain: j.uncertain, refused: j.refused,
		handled: j.handled, rebalances: j.rebalances,
	}
}
