package redis_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/redis-stream-coordinator/rsc/adapters/redis"
	"github.com/redis-stream-coordinator/rsc/adapters/redis/internal/redistest"
)

// lagSteps follow each other. Each leaves the groups a and b of the stream s
// somewhere; the server's own lag is null or wrong after many of them.
var lagSteps = []struct {
	name string
	do   []string
}{
	{"a fresh stream", []string{"XGROUP CREATE s a 0 MKSTREAM"}},
	{"five entries", []string{"XADD s 1-0 k v", "XADD s 2-0 k v", "XADD s 3-0 k v", "XADD s 4-0 k v", "XADD s 5-0 k v"}},
	{"two of them delivered", []string{"XREADGROUP GROUP a c COUNT 2 STREAMS s >"}},
	{"one before the position deleted", []string{"XDEL s 1-0"}},
	{"the last delivered one deleted", []string{"XDEL s 2-0"}},
	{"an undelivered one deleted", []string{"XDEL s 4-0"}},
	{"the rest delivered", []string{"XREADGROUP GROUP a c STREAMS s >"}},
	{"all deleted, one new", []string{"XDEL s 3-0 5-0", "XADD s 6-0 k v"}},
	{"a group at an arbitrary id", []string{"XADD s 7-0 k v", "XADD s 8-0 k v", "XADD s 9-0 k v", "XGROUP CREATE s b 7-5"}},
	{"a group that was told how much it has read, wrongly", []string{"XGROUP DESTROY s b", "XGROUP CREATE s b 7-0 ENTRIESREAD 2"}},
	{"a trim that overtook a group", []string{"XTRIM s MINID 9-0"}},
	{"that group goes on", []string{"XREADGROUP GROUP b c STREAMS s >"}},
	{"and falls behind again", []string{"XADD s 10-0 k v", "XADD s 11-0 k v", "XREADGROUP GROUP b c COUNT 1 STREAMS s >", "XADD s 12-0 k v"}},
	{"a group set back", []string{"XGROUP SETID s b 9-0"}},
	{"a group beyond the end", []string{"XGROUP SETID s b 99-0"}},
	{"nothing is left", []string{"XDEL s 9-0 10-0 11-0 12-0"}},
}

// TestUndelivered: what is said to be undelivered is what is there behind the
// group's position, or it is said to be a lower bound.
func TestUndelivered(t *testing.T) {
	t.Parallel()
	t.Run("server", func(t *testing.T) {
		server := redistest.Start(t)
		testUndelivered(t, raw(t, server.URL()), open(t, redis.Config{URL: server.URL()}).Streams())
	})
	t.Run("cluster", func(t *testing.T) {
		cluster := redistest.StartCluster(t, 2, false)
		testUndelivered(t, rawCluster(t, cluster.Addrs()), openCluster(t, cluster))
	})
}

func testUndelivered(t *testing.T, c goredis.UniversalClient, s *redis.Streams) {
	t.Helper()
	for _, step := range lagSteps {
		for _, command := range step.do {
			do(t, c, command)
		}
		for _, countUpTo := range []int{0, 1, 2, 100} {
			checkUndelivered(t, c, s, "s", fmt.Sprintf("%s, counting up to %d", step.name, countUpTo), countUpTo, countUpTo == 100)
		}
	}
}

func do(t *testing.T, c goredis.UniversalClient, command string) {
	t.Helper()
	var args []any
	for word := range strings.FieldsSeq(command) {
		args = append(args, word)
	}
	if err := c.Do(t.Context(), args...).Err(); err != nil && !errors.Is(err, goredis.Nil) {
		t.Fatalf("%s: %v", command, err)
	}
}

// checkUndelivered compares with a count of the whole stream.
func checkUndelivered(t *testing.T, c goredis.UniversalClient, s *redis.Streams, key, when string, countUpTo int, exact bool) {
	t.Helper()
	states, err := s.Inspect(t.Context(), []string{key}, countUpTo)
	if err != nil {
		t.Fatalf("%s: %v", when, err)
	}
	if len(states) != 1 || !states[0].Exists || states[0].Length != c.XLen(t.Context(), key).Val() {
		t.Fatalf("%s: %+v", when, states)
	}
	for _, g := range states[0].Groups {
		behind := c.XRange(t.Context(), key, "("+g.LastDeliveredID, "+").Val()
		truth, oldest := int64(len(behind)), ""
		if truth > 0 {
			oldest = behind[0].ID
		}
		switch got := g.Undelivered; {
		case got.Exact && got.Entries != truth:
			t.Errorf("%s: group %s: %d undelivered, there are %d", when, g.Name, got.Entries, truth)
		case !got.Exact && (got.Entries > truth || exact):
			t.Errorf("%s: group %s: at least %d undelivered, there are %d", when, g.Name, got.Entries, truth)
		}
		if g.OldestUndeliveredID != oldest {
			t.Errorf("%s: group %s: the oldest is %q, want %q", when, g.Name, g.OldestUndeliveredID, oldest)
		}
		if pending := c.XPending(t.Context(), key, g.Name).Val().Count; g.Pending != pending {
			t.Errorf("%s: group %s: %d pending, want %d", when, g.Name, g.Pending, pending)
		}
	}
}

// TestUndeliveredFar: a group in the midst of a long stream is counted from the
// nearer end, and with neither near there is a lower bound.
func TestUndeliveredFar(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	c, s := raw(t, server.URL()), open(t, redis.Config{URL: server.URL()}).Streams()
	const entries = 3000
	pipe := c.Pipeline()
	for i := range entries {
		pipe.XAdd(t.Context(), &goredis.XAddArgs{Stream: "s", ID: fmt.Sprintf("%d-1", i+1), Values: []any{"k", strings.Repeat("v", i%4000)}})
	}
	for _, at := range []int{1, 100, 1500, 2950, 2999} {
		pipe.XGroupCreate(t.Context(), "s", fmt.Sprint("g", at), fmt.Sprintf("%d-1", at))
	}
	if _, err := pipe.Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
	checkUndelivered(t, c, s, "s", "all", entries, true)
	states, err := s.Inspect(t.Context(), []string{"none", "s"}, 500)
	if err != nil {
		t.Fatal(err)
	}
	if states[0].Exists || states[0].Key != "none" {
		t.Errorf("a stream that is not there: %+v", states[0])
	}
	want := map[string]redis.Count{
		"g1": {Entries: entries - 1, Exact: true}, "g100": {Entries: entries - 100, Exact: true},
		"g2950": {Entries: 50, Exact: true}, "g2999": {Entries: 1, Exact: true},
	}
	for _, g := range states[1].Groups {
		if g.Name == "g1500" {
			if g.Undelivered.Exact || g.Undelivered.Entries < 500 || g.Undelivered.Entries > 1500 {
				t.Errorf("g1500: %+v, want a lower bound of 500 or more", g.Undelivered)
			}
			continue
		}
		if g.Undelivered != want[g.Name] {
			t.Errorf("%s: %+v, want %+v", g.Name, g.Undelivered, want[g.Name])
		}
	}
}

// TestOldestAge: the age is by the server's clock.
func TestOldestAge(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	c, s := raw(t, server.URL()), open(t, redis.Config{URL: server.URL()}).Streams()
	old := c.Time(t.Context()).Val().Add(-time.Hour).UnixMilli()
	do(t, c, fmt.Sprintf("XADD s %d-0 k v", old))
	do(t, c, "XGROUP CREATE s g 0")
	states, err := s.Inspect(t.Context(), []string{"s"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if age := states[0].Groups[0].OldestUndeliveredAge; age < time.Hour || age > time.Hour+time.Minute {
		t.Errorf("age %s, want an hour", age)
	}
}

// TestInspectForeign: the error names the key.
func TestInspectForeign(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	do(t, raw(t, server.URL()), "SET orders:1 x")
	s := open(t, redis.Config{URL: server.URL()}).Streams()
	if _, err := s.Inspect(t.Context(), []string{"orders:0", "orders:1"}, 10); err == nil || !strings.Contains(err.Error(), "orders:1") {
		t.Errorf("got %v", err)
	}
	for _, err := range s.Entries(t.Context(), "orders:1", "", "") {
		if err == nil || !strings.Contains(err.Error(), "orders:1") {
			t.Errorf("entries: %v", err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Inspect(ctx, []string{"orders:0"}, 10); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that has ended: %v", err)
	}
}

// TestEntries: every entry once and in order, whatever is in it, and as often as
// there are pages.
func TestEntries(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	c, s := raw(t, server.URL()), open(t, redis.Config{URL: server.URL()}).Streams()
	const entries = 150
	var ids []string
	for i := range entries {
		size := 10
		if i%40 == 39 {
			size = 3 << 20
		}
		id, err := c.XAdd(t.Context(), &goredis.XAddArgs{Stream: "s", Values: []any{"\xff\x00", strings.Repeat("\x80", size), "k", fmt.Sprint(i), "k", "again"}}).Result()
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	read := func(after, last string) (got []string) {
		for e, err := range s.Entries(t.Context(), "s", after, last) {
			if err != nil {
				t.Fatal(err)
			}
			if len(e.Fields) != 3 || e.Fields[0].Name != "\xff\x00" || e.Fields[0].Value[0] != 0x80 || e.Fields[2] != (redis.Field{Name: "k", Value: "again"}) {
				t.Fatalf("entry %s has other fields", e.ID)
			}
			got = append(got, e.ID)
		}
		return got
	}
	if got := read("", ""); strings.Join(got, " ") != strings.Join(ids, " ") {
		t.Errorf("read %d entries, want %d in order", len(got), len(ids))
	}
	if got := read(ids[99], ""); strings.Join(got, " ") != strings.Join(ids[100:], " ") {
		t.Errorf("read %d entries, want the last %d", len(got), len(ids)-100)
	}
	if got := read(ids[9], ids[119]); strings.Join(got, " ") != strings.Join(ids[10:120], " ") {
		t.Errorf("read %d entries, want 110 in the midst", len(got))
	}
	e, found, err := s.Entry(t.Context(), "s", ids[7])
	if err != nil || !found || e.ID != ids[7] {
		t.Errorf("one entry: %t, %v", found, err)
	}
	if n, err := s.Delete(t.Context(), "s", ids[7], ids[8], "1-1"); err != nil || n != 2 {
		t.Errorf("deleted %d, %v, want 2", n, err)
	}
	if _, found, err := s.Entry(t.Context(), "s", ids[7]); found || err != nil {
		t.Errorf("it is still there: %v", err)
	}
	for _, id := range []string{"", "x", "-", "(1-1", "1-1-1"} {
		if _, _, err := s.Entry(t.Context(), "s", id); err == nil {
			t.Errorf("%q was taken for an id", id)
		}
	}
}
