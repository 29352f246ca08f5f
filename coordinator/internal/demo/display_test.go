package demo

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// Where the time is shown, it stands still: the tests run in bubbles.

func TestDisplayWritesLinesElsewhere(t *testing.T) { synctest.Test(t, displayWritesLinesElsewhere) }

func displayWritesLinesElsewhere(t *testing.T) {
	var out strings.Builder
	d := &display{out: &out, began: time.Now().Add(-1500 * time.Millisecond)}
	d.say("shard %d moved", 3)
	if got, want := out.String(), "   1.50s  shard 3 moved\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestDisplayDrawsThePictureBelowTheLines(t *testing.T) {
	var out strings.Builder
	picture := []string{"one", "two", "a line that is much too long"}
	d := &display{
		out: &out, began: time.Now(),
		size: func() (int, int) { return 11, 24 }, picture: func() []string { return picture },
	}
	expect := func(what, want string) {
		t.Helper()
		if got := out.String(); got != want {
			t.Errorf("%s: got %q, want %q", what, got, want)
		}
		out.Reset()
	}
	d.draw()
	expect("first picture", "one\ntwo\na line tha\n")
	picture = []string{"three"}
	d.draw()
	expect("the next picture takes its place", "\x1b[3A\x1b[Jthree\n")
	d.print("news")
	expect("a line takes the picture's place", "\x1b[1A\x1b[Jnews\n")
	d.draw()
	expect("the picture comes back below it", "three\n")
	d.leave()
	expect("the last picture", "\x1b[1A\x1b[Jthree\n")
	d.print("result")
	expect("stays where it is", "result\n")
}

func TestDisplayKeepsToTheTerminal(t *testing.T) {
	var out strings.Builder
	rows := 3
	d := &display{out: &out, size: func() (int, int) { return 0, rows }, picture: func() []string { return []string{"1", "2", "3", "4"} }}
	d.draw()
	if got := strings.Count(out.String(), "\n"); got != 4 {
		t.Errorf("a terminal that does not tell its size was drawn %d lines, want 4", got)
	}
	d.size = func() (int, int) { return 80, rows }
	out.Reset()
	d.draw()
	if got := out.String(); got != "\x1b[4A\x1b[J1\n2\n" {
		t.Errorf("a terminal with 3 rows was drawn %q", got)
	}
}

func TestCut(t *testing.T) {
	for _, tt := range []struct {
		line    string
		columns int
		want    string
	}{{"abc", 3, "abc"}, {"abc", 2, "ab"}, {"██▓▓", 2, "██"}, {"abc", 0, ""}, {"", 5, ""}} {
		if got := cut(tt.line, tt.columns); got != tt.want {
			t.Errorf("cut(%q, %d) = %q, want %q", tt.line, tt.columns, got, tt.want)
		}
	}
}

// scene is a moment of a run: consumer-1 holds shards 0 and 1 (1 since just
// now), consumer-2 was killed and is still granted shard 2, consumer-3 is to let
// go of shard 3, and nobody has the others.
func scene() *picture {
	j := newJournal(time.Now().Add(-10*time.Second), mostShards, nil)
	f := &fleet{state: map[string]memberState{}, kills: map[string]time.Duration{}}
	for i, s := range []memberState{memberRuns, memberKilled, memberRuns} {
		name := memberName(i + 1)
		f.members = append(f.members, &child{name: name})
		f.state[name] = s
	}
	w := &watcher{last: sample{
		asked: time.Now(), group: protocol.Group{State: protocol.GroupReconciling},
		members: []protocol.Member{
			{MemberID: memberName(1), State: protocol.MemberActive, GrantedAssignment: protocol.Shards{0, 1}},
			{MemberID: memberName(2), State: protocol.MemberActive, GrantedAssignment: protocol.Shards{2}},
			{MemberID: memberName(3), State: protocol.MemberActive, Revoking: protocol.Shards{3}},
		},
	}}
	for shard, since := range []time.Duration{time.Second, j.now()} {
		j.shards[shard].holder, j.shards[shard].since = holder{memberName(1), 1}, since
	}
	j.shards[2].produced, j.shards[2].handled = 40, 7
	j.acknowledged = make([]sent, 40)
	j.handled = make([]handling, 7)
	return &picture{journal: j, layout: newLayout(firstShards), fleet: f, watcher: w, coordinators: func() []seat {
		return []seat{{name: "coordinator-1", url: "http://127.0.0.1:1"}, {name: "coordinator-2", url: "http://127.0.0.1:2", runs: true}}
	}, length: 20 * time.Second}
}

func TestPicture(t *testing.T) { synctest.Test(t, pictureOfAMoment) }

func pictureOfAMoment(t *testing.T) {
	lines := scene().lines()
	row := func(name string) string {
		i := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(strings.TrimSpace(l), name) })
		if i < 0 {
			t.Fatalf("no line for %s in\n%s", name, strings.Join(lines, "\n"))
		}
		return lines[i]
	}
	for _, tt := range []struct{ name, want string }{
		{"shard", "  shard                0   1   2   3   4   5   6   7  rec./s"},
		{"consumer-1", "  consumer-1 runs     ██  ▓▓                                0"},
		{"consumer-2", "  consumer-2 killed           ░░                            0"},
		{"consumer-3", "  consumer-3 runs                 ▒▒                        0"},
		{"coordinator-1", "  coordinator-1 http://127.0.0.1:1  AWAY"},
		{"coordinator-2", "  coordinator-2 http://127.0.0.1:2  runs, group is reconciling"},
		{"waiting", "  waiting              0   0  33   0   0   0   0   0"},
	} {
		if got := row(tt.name); got != tt.want {
			t.Errorf("got  %q\nwant %q", got, tt.want)
		}
	}
	if got := row("produced"); !strings.Contains(got, "produced      40") || !strings.Contains(got, "handled       7") || !strings.Contains(got, "waiting    33") {
		t.Errorf("got %q", got)
	}
	if got := lines[len(lines)-2]; !strings.Contains(got, strings.Repeat("━", 25)+"─") || !strings.Contains(got, "10.0 of 20 s") {
		t.Errorf("the bar is %q", got)
	}
}

// A terminal of the usual width shows all of the widest picture.
func TestPictureOfAChange(t *testing.T) { synctest.Test(t, pictureOfAChange) }

func pictureOfAChange(t *testing.T) {
	p := scene()
	p.layout.scaled(mostShards)
	lines := p.lines()
	for _, line := range lines {
		if n := len([]rune(line)); n >= usualColumns {
			t.Errorf("%d columns wide: %q", n, line)
		}
	}
	if want := "  shard                0   1   2   3   4   5   6   7   8   9  10  11  rec./s"; !slices.Contains(lines, want) {
		t.Errorf("no line %q in\n%s", want, strings.Join(lines, "\n"))
	}
	p.layout.scaled(lastShards)
	p.layout.drains(3)
	if lines, want := p.lines(), "  shards 5 to 11: no longer written to, 3 records left to read"; !slices.Contains(lines, want) {
		t.Errorf("no line %q in\n%s", want, strings.Join(lines, "\n"))
	}
	p.layout.drained()
	if lines, want := p.lines(), "  shard                0   1   2   3   4  rec./s"; !slices.Contains(lines, want) {
		t.Errorf("no line %q in\n%s", want, strings.Join(lines, "\n"))
	}
}

func TestStatusLine(t *testing.T) { synctest.Test(t, statusLine) }

func statusLine(t *testing.T) {
	p := scene()
	const want = "0/s produced, 0/s handled, 33 waiting | consumer-1 0 1 | consumer-2 (killed) 2 | consumer-3 3"
	if got := p.status(); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	p.layout.scaled(6)
	p.layout.drains(12)
	if got := p.status(); !strings.Contains(got, "waiting | 12 left in shards 6 to 7 | consumer-1") {
		t.Errorf("got %q", got)
	}
	p.layout.drained()
	p.watcher.last.err = protocol.ErrStoreUnavailable
	if got := p.status(); !strings.Contains(got, "waiting | coordinator away | consumer-1") {
		t.Errorf("got %q", got)
	}
}

func TestRates(t *testing.T) {
	before := timedCounts{time.Unix(0, 0), counts{produced: 100}}
	if got := rate(timedCounts{time.Unix(2, 0), counts{produced: 301}}, before, produced); got != 101 {
		t.Errorf("201 records in 2 s are %d a second", got)
	}
	if got := rate(before, before, produced); got != 0 {
		t.Errorf("no time has gone by, and the rate is %d", got)
	}
}
