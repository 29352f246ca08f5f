package demo

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// picture is what the display shows.
type picture struct {
	journal *journal
	layout  *layout
	fleet   *fleet
	watcher *watcher
	// coordinators tells of them.
	coordinators func() []seat
	length       time.Duration

	// samples are the counts of the last second or so. Only the display's
	// goroutine touches them.
	samples []timedCounts
}

type timedCounts struct {
	at time.Time
	counts
}

// rateOver is the time over which rates are taken.
const rateOver = time.Second

// take takes a sample and returns it with an earlier one to compare with.
func (p *picture) take() (now, before timedCounts) {
	now = timedCounts{time.Now(), p.journal.counts()}
	p.samples = append(p.samples, now)
	for len(p.samples) > 2 && now.at.Sub(p.samples[1].at) >= rateOver {
		p.samples = p.samples[1:]
	}
	return now, p.samples[0]
}

// rate is records a second between two samples.
func rate(now, before timedCounts, count func(counts) int) int {
	seconds := now.at.Sub(before.at).Seconds()
	if seconds <= 0 {
		return 0
	}
	return int(float64(count(now.counts)-count(before.counts))/seconds + 0.5)
}

func produced(c counts) int { return c.produced }
func handled(c counts) int  { return c.handled }

// waiting is how many records of a shard nobody has handled yet.
func (t *shardTrace) waiting() int { return max(0, t.produced-t.handled) }

func (c *counts) waiting() int {
	n := 0
	for i := range c.shards {
		n += c.shards[i].waiting()
	}
	return n
}

// status is everything in one line.
func (p *picture) status() string {
	now, before := p.take()
	s := p.watcher.latest()
	var b strings.Builder
	fmt.Fprintf(&b, "%d/s produced, %d/s handled, %d waiting", rate(now, before, produced), rate(now, before, handled), now.waiting())
	if s.err != nil {
		b.WriteString(" | coordinator away")
	}
	if l := p.layout.shards(); l.shrinks() {
		fmt.Fprintf(&b, " | %d left in %s", l.left, span(l.written, l.read))
	}
	names, states := p.fleet.roll()
	for _, name := range names {
		if held := p.held(name, &s, &now.counts); len(held) > 0 {
			fmt.Fprintf(&b, " | %s", name)
			if states[name] != memberRuns {
				fmt.Fprintf(&b, " (%s)", states[name])
			}
			for _, shard := range held {
				b.WriteString(" " + strconv.Itoa(shard))
			}
		}
	}
	return b.String()
}

// held are the shards that a member holds as far as is known, those that it is
// to let go of among them.
func (p *picture) held(member string, s *sample, c *counts) []int {
	var held []int
	for shard := range c.shards {
		if cellOf(member, shard, s, c, p.journal.now(), memberRuns) != cellNone {
			held = append(held, shard)
		}
	}
	return held
}

// The cells of the picture: what a consumer is to a shard.
const (
	cellNone   = "  "
	cellHolds  = "██"
	cellFresh  = "▓▓" // since a moment ago
	cellLetsGo = "▒▒" // asked to let go
	cellStale  = "░░" // gone, and nobody may have it before its lease ends
)

// freshFor is how long a shard is shown as new.
const freshFor = time.Second

// cellOf shows one consumer and one shard.
func cellOf(member string, shard int, s *sample, c *counts, now time.Duration, state memberState) string {
	t := &c.shards[shard]
	switch {
	case s.letsGo(member, shard):
		return cellLetsGo
	case s.owner(shard) != member:
		return cellNone
	case state == memberKilled || state == memberGone:
		return cellStale
	case t.member == member && now-t.since < freshFor:
		return cellFresh
	}
	return cellHolds
}

// lines is the picture.
func (p *picture) lines() []string {
	now, before := p.take()
	s := p.watcher.latest()
	names, states := p.fleet.roll()
	lines := append([]string{""}, p.seats(&s)...)
	lines = append(lines,
		fmt.Sprintf("  produced %7d  %5d/s     handled %7d  %5d/s     waiting %5d", now.produced, rate(now, before, produced), now.handled, rate(now, before, handled), now.waiting()),
		"")
	l := p.layout.shards()
	var head strings.Builder
	fmt.Fprintf(&head, "  %-18s", "shard")
	for shard := range l.read {
		fmt.Fprintf(&head, "%4d", shard)
	}
	lines = append(lines, head.String()+"  rec./s")
	moment := p.journal.now()
	for _, name := range names {
		var row strings.Builder
		fmt.Fprintf(&row, "  %-11s%-7s", name, states[name])
		for shard := range l.read {
			row.WriteString("  " + cellOf(name, shard, &s, &now.counts, moment, states[name]))
		}
		fmt.Fprintf(&row, "  %7d", rate(now, before, func(c counts) int { return c.byMember[name] }))
		lines = append(lines, row.String())
	}
	var foot strings.Builder
	fmt.Fprintf(&foot, "  %-18s", "waiting")
	for shard := range l.read {
		fmt.Fprintf(&foot, "%4d", now.shards[shard].waiting())
	}
	lines = append(lines, foot.String(), drainLine(l), p.progress(), "  "+cellHolds+" holds  "+cellFresh+" since a moment ago  "+cellLetsGo+" lets go  "+cellStale+" gone, until its lease ends")
	return slices.Clip(lines)
}

// drainLine tells of the shards that are removed; it is empty while there is none.
func drainLine(l shards) string {
	if !l.shrinks() {
		return ""
	}
	return fmt.Sprintf("  %s: no longer written to, %d records left to read", span(l.written, l.read), l.left)
}

// seats tells of each coordinator in a line, and of the group in the first one that
// runs.
func (p *picture) seats(s *sample) []string {
	group := ", group is " + strings.ToLower(string(s.group.State))
	var lines []string
	for _, one := range p.coordinators() {
		state := "AWAY"
		switch {
		case !one.runs && s.err != nil:
			state = "AWAY: consumers and producer go on by themselves"
		case one.runs:
			state = "runs" + group
			group = ""
		}
		lines = append(lines, fmt.Sprintf("  %-13s %s  %s", one.name, one.url, state))
	}
	return lines
}

// progress is a bar for the time.
func (p *picture) progress() string {
	const width = 50
	gone := min(p.journal.now(), p.length)
	done := int(width * gone / p.length)
	return fmt.Sprintf("  %s%s %4.1f of %.0f s", strings.Repeat("━", done), strings.Repeat("─", width-done), gone.Seconds(), p.length.Seconds())
}
