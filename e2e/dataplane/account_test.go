package dataplane

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// name is a record: the seq-th of its key.
type name struct {
	key string
	seq int
}

func (n name) String() string { return fmt.Sprintf("%s/%d", n.key, n.seq) }

// position is a record's place in its shard; ids are compared as Redis does.
type position struct{ ms, n uint64 }

func parsePosition(id string) (p position) {
	ms, n, _ := strings.Cut(id, "-")
	// Ids come from Redis; one that is none compares as zero and shows.
	p.ms, _ = strconv.ParseUint(ms, 10, 64)
	p.n, _ = strconv.ParseUint(n, 10, 64)
	return p
}

func (p position) before(o position) bool {
	return p.ms < o.ms || (p.ms == o.ms && p.n < o.n)
}

// account is what came of every record, after the journal.
//
// Order is judged over first handlings under the newest token: an event under an
// older token than one that was seen of its shard is work of a member that has
// been succeeded. It is counted apart, and proves nothing about its record.
type account struct {
	records map[name]*history
	// newest is the highest token of each shard so far.
	newest map[int]int64
	// lastOf is the latest place at which a record of the key was begun for the
	// first time; openOf the record of a key that was begun and not finished.
	lastOf map[string]place
	openOf map[string]name
	// running are the handlings that have begun and not ended.
	running map[run]name

	// disorder are violations of the order of a key, as sentences. skips are
	// records that were begun while an earlier one of their key was not finished:
	// they are violations too, unless the earlier one became a dead letter.
	disorder []string
	skips    []skip
	// doubles are records of which two handlings ran at the same time.
	doubles []string
	// duplicates counts handlings of records that had been finished before, failures
	// the handlings that failed, oldTokens those that were begun under an older token.
	duplicates, failures, oldTokens int
	// events counts all lines, finished the records that were finished.
	events, finished int
}

// history is what came of one record under the newest tokens.
type history struct {
	shard, begun, done int
	// deliveries is the highest count that it was begun with.
	deliveries int
	// at is when it was first finished.
	at time.Time
}

type place struct {
	shard int
	at    position
	name  name
}

type run struct {
	member string
	token  int64
	shard  int
	id     string
}

type skip struct{ earlier, later name }

func newAccount() *account {
	return &account{
		records: map[name]*history{}, newest: map[int]int64{}, lastOf: map[string]place{},
		openOf: map[string]name{}, running: map[run]name{},
	}
}

func (a *account) add(e event) {
	a.events++
	r, n := run{e.member, e.token, e.shard, e.id}, name{e.key, e.seq}
	if e.kind != began {
		delete(a.running, r)
		switch {
		case e.token < a.newest[e.shard]:
		case e.kind == failed:
			a.failures++
		default:
			a.finish(n, e)
		}
		return
	}
	for other, record := range a.running {
		if record != n || other.id != r.id {
			continue
		}
		text := fmt.Sprintf("%v was begun by %s under token %d while %s had it under token %d", n, e.member, e.token, other.member, other.token)
		a.doubles = append(a.doubles, text)
		if other.token == e.token {
			a.disorder = append(a.disorder, text)
		}
	}
	a.running[r] = n
	if e.token < a.newest[e.shard] {
		a.oldTokens++
		return
	}
	a.newest[e.shard] = e.token
	a.begin(e, n)
}

// forget notes that a member's process has ended: nothing runs in it any more.
func (a *account) forget(member string) {
	maps.DeleteFunc(a.running, func(r run, _ name) bool { return r.member == member })
}

func (a *account) of(n name) *history {
	h := a.records[n]
	if h == nil {
		h = new(history)
		a.records[n] = h
	}
	return h
}

func (a *account) begin(e event, n name) {
	h := a.of(n)
	if h.done > 0 {
		a.duplicates++
	}
	h.shard, h.deliveries = e.shard, max(h.deliveries, e.deliveries)
	h.begun++
	if h.begun > 1 {
		return
	}
	if open, ok := a.openOf[e.key]; ok && open != n {
		a.skips = append(a.skips, skip{open, n})
	}
	here := place{e.shard, parsePosition(e.id), n}
	last, known := a.lastOf[e.key]
	switch {
	case !known || (last.shard == here.shard && last.at.before(here.at)):
		a.lastOf[e.key], a.openOf[e.key] = here, n
	case last.shard != here.shard:
		a.disorder = append(a.disorder, fmt.Sprintf("key %s is in shard %d and in shard %d", e.key, last.shard, here.shard))
	default:
		a.disorder = append(a.disorder, fmt.Sprintf("%v (%s) was begun for the first time after %v", n, e.id, last.name))
	}
}

func (a *account) finish(n name, e event) {
	h := a.of(n)
	if h.done++; h.done == 1 {
		h.at = e.at
		a.finished++
	}
	if a.openOf[n.key] == n {
		delete(a.openOf, n.key)
	}
}

// done reports whether a record was finished.
func (a *account) done(n name) bool {
	h := a.records[n]
	return h != nil && h.done > 0
}

// violations returns all breaches of the order of a key. Records in excused were
// moved to the dead-letter stream, or are gone with a server: others may pass them.
func (a *account) violations(excused map[name]bool) []string {
	all := slices.Clone(a.disorder)
	for _, s := range a.skips {
		if !excused[s.earlier] {
			all = append(all, fmt.Sprintf("%v was begun while %v of its key was not finished", s.later, s.earlier))
		}
	}
	return all
}
