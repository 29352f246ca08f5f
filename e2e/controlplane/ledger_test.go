package controlplane

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// ledger works the journal up: who read which shard, when and under which token.
type ledger struct {
	// spans are the readings of each shard, as they came.
	spans [][]*span
	// losses are the shards that were taken from somebody, as they came.
	losses []line
	lines  int
}

// span is one holder's time with a shard.
type span struct {
	member string
	token  int64
	// first and last are times at which it could have read.
	first, last time.Time
	// open says that it still may, as far as it has said.
	open bool
}

func newLedger(shards int) *ledger { return &ledger{spans: make([][]*span, shards)} }

func (g *ledger) add(l line) {
	g.lines++
	if l.kind == started {
		g.spans[l.shard] = append(g.spans[l.shard], &span{member: l.member, token: l.token, first: l.at, last: l.at, open: true})
		return
	}
	s := g.find(l)
	switch l.kind {
	case lost:
		g.losses = append(g.losses, l)
		if s != nil {
			s.open = false
		}
	case reads, letGo:
		if s == nil {
			// Its beginning was not written because the lease was over, and here it was
			// not: the member contradicts itself.
			s = &span{member: l.member, token: l.token, first: l.at, last: l.at}
			g.spans[l.shard] = append(g.spans[l.shard], s)
		}
		if l.at.After(s.last) {
			s.last = l.at
		}
		s.open = s.open && l.kind == reads
	}
}

// find returns the reading that a line goes on with.
func (g *ledger) find(l line) *span {
	all := g.spans[l.shard]
	for i := len(all) - 1; i >= 0; i-- {
		if all[i].member == l.member && all[i].token == l.token {
			return all[i]
		}
	}
	return nil
}

// forget closes what members held whose process was killed.
func (g *ledger) forget(members []string) {
	for _, all := range g.spans {
		for _, s := range all {
			if s.open && slices.Contains(members, s.member) {
				s.open = false
			}
		}
	}
}

// readings counts the times that somebody was given a shard.
func (g *ledger) readings() int {
	n := 0
	for _, all := range g.spans {
		n += len(all)
	}
	return n
}

// held returns the shards that each member holds at the moment, as it says.
func (g *ledger) held() map[string][]int {
	held := map[string][]int{}
	for shard, all := range g.spans {
		for _, s := range all {
			if s.open {
				held[s.member] = append(held[s.member], shard)
			}
		}
	}
	return held
}

// unsettled says what keeps the members from sharing all shards evenly, each held by
// one of them; empty when nothing does.
func (g *ledger) unsettled(members []string) string {
	held, sum := g.held(), 0
	least, most := len(g.spans), 0
	for _, m := range members {
		n := len(held[m])
		sum += n
		least, most = min(least, n), max(most, n)
		delete(held, m)
	}
	switch {
	case len(held) > 0:
		return fmt.Sprintf("others hold shards: %v", held)
	case sum != len(g.spans):
		return fmt.Sprintf("%d shards are held %d times", len(g.spans), sum)
	case most-least > 1:
		return fmt.Sprintf("one member holds %d shards and another %d", least, most)
	}
	for shard, all := range g.spans {
		if n := openSpans(all); n != 1 {
			return fmt.Sprintf("shard %d is held %d times", shard, n)
		}
	}
	return ""
}

func openSpans(all []*span) int {
	n := 0
	for _, s := range all {
		if s.open {
			n++
		}
	}
	return n
}

// overlaps returns the readings of a shard that began while another one went on, and
// tokens those that began under a token that was not higher than the one before.
func (g *ledger) overlaps() (overlaps, tokens []string) {
	for shard, all := range g.spans {
		sorted := slices.SortedFunc(slices.Values(all), func(a, b *span) int {
			return cmp.Or(a.first.Compare(b.first), cmp.Compare(a.token, b.token))
		})
		var before *span
		for _, s := range sorted {
			if before != nil && s.first.Before(before.last) {
				overlaps = append(overlaps, fmt.Sprintf("shard %d: %s (token %d) read until %s, %s (token %d) from %s", shard,
					before.member, before.token, stamp(before.last), s.member, s.token, stamp(s.first)))
			}
			if before != nil && s.token <= before.token {
				tokens = append(tokens, fmt.Sprintf("shard %d: %s had token %d, after it %s has %d", shard, before.member, before.token, s.member, s.token))
			}
			if before == nil || s.last.After(before.last) {
				before = s
			}
		}
	}
	return overlaps, tokens
}

func stamp(t time.Time) string { return t.Format("15:04:05.000") }
