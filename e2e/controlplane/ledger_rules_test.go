package controlplane

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/e2e/faultkit"
)

// A ledger that notices nothing proves nothing.
func TestTheLedgerNotices(t *testing.T) {
	begin := time.Now()
	at := func(ms int) time.Time { return begin.Add(time.Duration(ms) * time.Millisecond) }
	of := func(kind byte, ms, shard int, token int64, member string) line {
		return line{kind: kind, at: at(ms), shard: shard, token: token, member: member, cause: "-"}
	}
	tests := []struct {
		name                       string
		lines                      []line
		overlaps, tokens, settling string
	}{
		{"a hand-over in order", []line{
			of(started, 0, 0, 1, "a"), of(started, 0, 1, 2, "b"), of(letGo, 10, 0, 1, "a"), of(started, 11, 0, 3, "b"), of(lost, 20, 1, 2, "b"), of(started, 21, 1, 4, "a"),
		}, "", "", ""},
		{"lines that come late", []line{
			of(started, 0, 0, 1, "a"), of(started, 20, 0, 3, "b"), of(reads, 10, 0, 1, "a"), of(lost, 60, 0, 1, "a"), of(started, 0, 1, 2, "a"),
		}, "", "", ""},
		{"a reader that goes on", []line{
			of(started, 0, 0, 1, "a"), of(started, 20, 0, 3, "b"), of(reads, 30, 0, 1, "a"), of(letGo, 40, 0, 1, "a"), of(started, 0, 1, 2, "a"),
		}, "shard 0: a (token 1) read until", "", ""},
		{"two with one token", []line{
			of(started, 0, 0, 1, "a"), of(letGo, 10, 0, 1, "a"), of(started, 20, 0, 1, "b"), of(started, 0, 1, 2, "a"),
		}, "", "after it b has 1", ""},
		{"a token that went back", []line{
			of(started, 0, 0, 5, "a"), of(letGo, 10, 0, 5, "a"), of(started, 20, 0, 4, "b"), of(started, 0, 1, 2, "a"),
		}, "", "a had token 5, after it b has 4", ""},
		{"reading on after it was let go of", []line{
			of(started, 0, 0, 1, "a"), of(letGo, 10, 0, 1, "a"), of(started, 12, 0, 2, "b"), of(reads, 14, 0, 1, "a"), of(started, 0, 1, 2, "a"),
		}, "shard 0", "", ""},
		{"a shard without a reader", []line{of(started, 0, 0, 1, "a"), of(started, 0, 1, 2, "b"), of(letGo, 3, 1, 2, "b")}, "", "", "held 1 times"},
		{"a shard with two who hold it", []line{of(started, 0, 0, 1, "a"), of(started, 0, 0, 2, "b")}, "", "", "shard 0 is held 2 times"},
		{"an uneven share", []line{of(started, 0, 0, 1, "a"), of(started, 0, 1, 2, "a")}, "", "", "one member holds 0 shards"},
		{"somebody who should be gone", []line{of(started, 0, 0, 1, "a"), of(started, 0, 1, 2, "c")}, "", "", "others hold shards"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := newLedger(2)
			for _, l := range tt.lines {
				g.add(l)
			}
			overlaps, tokens := g.overlaps()
			expect(t, "overlaps", strings.Join(overlaps, "\n"), tt.overlaps)
			expect(t, "tokens", strings.Join(tokens, "\n"), tt.tokens)
			expect(t, "unsettled", g.unsettled([]string{"a", "b"}), tt.settling)
		})
	}
}

func expect(t *testing.T, what, got, want string) {
	t.Helper()
	if (got == "") != (want == "") || !strings.Contains(got, want) {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

func TestTheLedgerForgetsWhoWasKilled(t *testing.T) {
	g := newLedger(1)
	g.add(line{kind: started, at: time.Now(), token: 1, member: "a", cause: "-"})
	g.forget([]string{"a"})
	if got := g.unsettled([]string{"a"}); got == "" {
		t.Error("a shard of a member that was killed counts as held")
	}
}

func TestJournalLines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	w, err := faultkit.OpenJournal(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = w.Close() }()
	r := faultkit.ReadJournal(t, path)
	want := []line{
		{kind: started, at: time.Unix(0, 17), shard: 3, token: 1839075750922241, member: "m01", cause: "-"},
		{kind: lost, at: time.Unix(5, 0), shard: 95, token: 2, member: "m02", cause: "fenced"},
	}
	var got []line
	for _, l := range want {
		journal{w}.note(l)
		takeLines(r, func(l line) { got = append(got, l) })
	}
	if len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("read %v, wrote %v", got, want)
	}
	if _, err := parseLine("S 1 2"); err == nil {
		t.Error("half a line was taken")
	}
}
