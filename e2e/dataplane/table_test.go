package dataplane

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/redis-stream-coordinator/rsc/e2e/faultkit"
	"github.com/redis-stream-coordinator/rsc/e2e/rsctest"
)

// In the short form, which shares its machine with the other scenarios, a bound may be
// missed by a factor of busy, and by the time for which the machine may stand still on
// top. The long form takes bounds as they are.
const (
	busy       = 4
	standstill = 6 * time.Second
)

// scenario is a fault, and what must come of it.
type scenario struct {
	// id is that of the report behind it, with a word where one has several.
	id string
	// what happens, in a few words.
	what string
	// kinds are the servers that it concerns.
	kinds []faultkit.Kind
	// longOnly leaves it out of the short form.
	longOnly bool
	run      func(t *testing.T, kind faultkit.Kind) finding
}

// finding is what a scenario has seen.
type finding struct {
	produced, lost, duplicated, disorder int
	// unknown counts publishings whose outcome is unknown, dead the dead letters,
	// gone what the server lost itself, oldTokens the handlings that were begun
	// under an older token.
	unknown, dead, gone, oldTokens int
	// refused counts records that were given up, certainly not stored.
	refused int
	// recovery is the time that the scenario is about, bound its limit; zero for
	// none.
	recovery, bound time.Duration
	// many says that the time is one of many, which a machine that stands still for a
	// moment leaves as it is.
	many bool
	// note is what else was counted.
	note string
}

// row is a line of the table.
type row struct {
	scenario, server string
	finding
	verdict string
}

// table collects the findings of all scenarios.
type table struct {
	mu   sync.Mutex
	rows []row
}

func (tb *table) add(r row) {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	tb.rows = append(tb.rows, r)
}

// String prints the table, in the order of the scenarios.
func (tb *table) String() string {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	rank := map[string]int{}
	for i, s := range scenarios() {
		rank[s.id] = i
	}
	slices.SortStableFunc(tb.rows, func(a, b row) int { return rank[a.scenario] - rank[b.scenario] })
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "scenario\tserver\tproduced\tlost\tduplicated\tout of order\tunknown\tdead letters\tgone with the server\told-token work\trecovery\tbound\tverdict\tnote")
	for _, r := range tb.rows {
		bound := "-"
		if r.bound > 0 {
			bound = r.bound.String()
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%s\t%s\t%s\t%s\n", r.scenario, r.server, r.produced, r.lost, r.duplicated, r.disorder,
			r.unknown, r.dead, r.gone, r.oldTokens, r.recovery.Round(time.Millisecond), bound, r.verdict, r.note)
	}
	_ = w.Flush() // to memory
	return text.String()
}

// TestScenarios runs every scenario on every server that it concerns, as many side
// by side as -parallel says: they wait most of the time. RSC_SCENARIO names one.
func TestScenarios(t *testing.T) {
	asked(t)
	rsctest.Program(t) // no scenario is to wait for it
	only := os.Getenv("RSC_SCENARIO")
	if only != "" && !slices.ContainsFunc(scenarios(), func(s scenario) bool { return s.id == only && (long() || !s.longOnly) }) {
		t.Fatalf("RSC_SCENARIO: there is no scenario %q in this form, docs/faults.md has them", only)
	}
	all := new(table)
	t.Run("on", func(t *testing.T) {
		for _, s := range scenarios() {
			if (s.longOnly && !long()) || (only != "" && s.id != only) {
				continue
			}
			for _, kind := range s.kinds {
				t.Run(s.id+"/"+kind.Name, func(t *testing.T) {
					t.Parallel()
					r := row{scenario: s.id, server: kind.Name, verdict: "did not come to its end"}
					defer func() {
						switch {
						case t.Skipped():
							r.verdict = "skipped"
						case t.Failed():
							t.Logf("what happened: %s", s.what)
						}
						all.add(r)
					}()
					r.finding = s.run(t, kind)
					r.judge(t)
				})
			}
		}
	})
	text := all.String()
	t.Logf("scenarios: lost and out of order must be 0\n%s", text)
	if path := os.Getenv("RSC_DATAPLANE_TABLE"); path != "" {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Error(err)
		}
	}
}

// judge holds a finding to what must be.
func (r *row) judge(t *testing.T) {
	t.Helper()
	limit := r.bound
	if !long() {
		limit *= busy
		if !r.many {
			limit += standstill
		}
	}
	if r.lost > 0 {
		t.Errorf("%d records were lost", r.lost)
	}
	if r.disorder > 0 {
		t.Errorf("%d times out of order", r.disorder)
	}
	if r.bound > 0 && r.recovery > limit {
		t.Errorf("it took %s, must be under %s", r.recovery, limit)
	}
	if r.verdict = "ok"; t.Failed() {
		r.verdict = "FAILED"
	}
}

// size returns the count of the short or of the long form.
func size(short, whole int) int {
	if long() {
		return whole
	}
	return short
}

// find brings the account to its end and returns what it says. The members have
// done all there is to do by now.
func (w *world) find() finding {
	w.t.Helper()
	w.take()
	published, there, dead := w.published(), w.contents(), w.deadLetters()
	f := finding{produced: len(published), duplicated: w.account.duplicates, oldTokens: w.account.oldTokens, dead: len(dead), gone: len(w.gone)}
	excused := map[name]bool{}
	for n := range dead {
		excused[n] = true
	}
	for n := range w.gone {
		excused[n] = true
	}
	f.duplicated += w.storedTwice(published, there)
	var lost []name
	for n, s := range published {
		switch s.outcome {
		case unknown:
			f.unknown++
		case refused:
			f.refused++
		case stored:
		}
		owed := s.outcome == stored || (s.outcome == unknown && there[n] > 0)
		if !owed || w.account.done(n) || excused[n] {
			continue
		}
		if w.lossy && there[n] == 0 {
			f.gone++
			excused[n] = true
			continue
		}
		lost = append(lost, n)
	}
	f.lost = len(lost)
	complaints := append(w.account.violations(excused), storedOutOfOrder(published)...)
	f.disorder = len(complaints)
	faultkit.Report(w.t, "lost", lost)
	faultkit.Report(w.t, "out of order", complaints)
	return f
}

// storedTwice counts records that are in the streams more often than they were
// sent.
func (w *world) storedTwice(published map[name]sent, there map[name]int) int {
	w.t.Helper()
	count := 0
	for n, times := range there {
		s, ours := published[n]
		switch {
		case !ours:
			w.t.Errorf("%v is in the streams and was never published", n)
		case s.outcome == refused:
			w.t.Errorf("%v is in the streams although the producer said that it was not stored", n)
		}
		count += times - 1
	}
	return count
}

// storedOutOfOrder returns the records that were confirmed and lie before an
// earlier one of their key.
func storedOutOfOrder(published map[name]sent) []string {
	last := map[string]int{}
	for n := range published {
		last[n.key] = max(last[n.key], n.seq)
	}
	var complaints []string
	for key, end := range last {
		var before position
		for seq := range end + 1 {
			s, ok := published[name{key, seq}]
			if !ok || s.outcome != stored {
				continue
			}
			if !before.before(s.place) {
				complaints = append(complaints, fmt.Sprintf("%s/%d was stored before an earlier record of its key", key, seq))
			}
			before = s.place
		}
	}
	return complaints
}
