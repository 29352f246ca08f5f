package reshard

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/e2e/faultkit"
)

// account is what came of every record, after the journals.
type account struct {
	tb    testing.TB
	feeds map[string]*feedAccount
	// handled counts the handlings of each record, by group.
	handled map[string]map[name]int
	groups  map[string]*faultkit.JournalReader
}

// feedAccount is what a feed says.
type feedAccount struct {
	journal *faultkit.JournalReader
	// stored are records that Redis has confirmed.
	stored map[name]stored
	// unknown and refused count the others.
	unknown, refused int
	// without are the times at which there were no shards.
	without []time.Time
	batches []batch
}

type stored struct {
	shard int
	at    time.Time
}

// batch is a batch of a feed: when it was due, and how much later it was settled.
type batch struct {
	due  time.Time
	took time.Duration
}

func newAccount(tb testing.TB) *account {
	return &account{tb: tb, feeds: map[string]*feedAccount{}, handled: map[string]map[name]int{}, groups: map[string]*faultkit.JournalReader{}}
}

func (a *account) addFeed(feed, journal string) {
	a.tb.Helper()
	a.feeds[feed] = &feedAccount{journal: faultkit.ReadJournal(a.tb, journal), stored: map[name]stored{}}
}

func (a *account) addGroup(group, journal string) {
	a.tb.Helper()
	a.groups[group], a.handled[group] = faultkit.ReadJournal(a.tb, journal), map[name]int{}
}

// take brings the account up to date.
func (a *account) take() {
	a.tb.Helper()
	for _, f := range a.feeds {
		f.journal.Take(func(line []byte) error {
			f.add(a.tb, bytes.Fields(line))
			return nil
		})
	}
	for group, j := range a.groups {
		j.Take(func(line []byte) error {
			words := bytes.Fields(line)
			if len(words) != 4 {
				return fmt.Errorf("no line of a group's journal: %q", line)
			}
			a.handled[group][name{string(words[0]), int(number(a.tb, words[1]))}]++
			return nil
		})
	}
}

func (f *feedAccount) add(tb testing.TB, words [][]byte) {
	tb.Helper()
	if len(words) == 0 {
		tb.Fatal("an empty line in a feed's journal")
	}
	switch kind := string(words[0]); {
	case kind == "s" && len(words) == 5:
		n := name{string(words[1]), int(number(tb, words[2]))}
		f.stored[n] = stored{int(number(tb, words[3])), time.Unix(0, number(tb, words[4]))}
	case kind == "u" && len(words) == 3:
		f.unknown++
	case kind == "r" && len(words) == 3:
		f.refused++
	case kind == "z" && len(words) == 2:
		f.without = append(f.without, time.Unix(0, number(tb, words[1])))
	case kind == "b" && len(words) == 3:
		f.batches = append(f.batches, batch{time.Unix(0, number(tb, words[1])), time.Duration(number(tb, words[2]))})
	default:
		tb.Fatalf("no line of a feed's journal: %q", words)
	}
}

func number(tb testing.TB, text []byte) int64 {
	tb.Helper()
	n, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil {
		tb.Fatal(err)
	}
	return n
}

// storedCount counts the records that Redis has confirmed.
func (a *account) storedCount() int {
	n := 0
	for _, f := range a.feeds {
		n += len(f.stored)
	}
	return n
}

// lost are records that were stored and that the group has not handled.
func (a *account) lost(group string) (lost []name) {
	for _, f := range a.feeds {
		for n := range f.stored {
			if a.handled[group][n] == 0 {
				lost = append(lost, n)
			}
		}
	}
	return lost
}

// duplicates counts the handlings of records that had been handled before.
func (a *account) duplicates(group string) int {
	n := 0
	for _, times := range a.handled[group] {
		n += times - 1
	}
	return n
}

// storedIn returns how many records a feed has stored in shards first ≤ i < end since a
// moment.
func (f *feedAccount) storedIn(first, end int, since time.Time) int {
	n := 0
	for _, s := range f.stored {
		if s.shard >= first && s.shard < end && s.at.After(since) {
			n++
		}
	}
	return n
}

// firstStored is when a feed first stored something after a moment; the zero time for
// never.
func (f *feedAccount) firstStored(since time.Time) (first time.Time) {
	for _, s := range f.stored {
		if s.at.After(since) && (first.IsZero() || s.at.Before(first)) {
			first = s.at
		}
	}
	return first
}

// pauses are how long what was due waited until it was stored, outside the given spans,
// sorted. Of a batch that held up others, each of those is one too.
func (f *feedAccount) pauses(outside ...[2]time.Time) (all []time.Duration) {
	for _, b := range f.batches {
		inside := slices.ContainsFunc(outside, func(span [2]time.Time) bool {
			return b.due.Before(span[1]) && b.due.Add(b.took).After(span[0])
		})
		if inside {
			continue
		}
		for left := b.took; left > 0; left -= feedTick {
			all = append(all, left)
		}
	}
	slices.Sort(all)
	return all
}

// quantile returns the value of a sorted list that a share of it does not exceed.
func quantile(sorted []time.Duration, share float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, int(share*float64(len(sorted))))]
}
