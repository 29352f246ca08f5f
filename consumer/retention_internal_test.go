package consumer

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redis-stream-coordinator/rsc/consumer/internal/redistest"
)

// TestTrimTakesNothingThatIsNeeded: groups read, acknowledge, claim, are set back,
// made and destroyed at random, records are deleted, and after each trim everything
// that some group has not been given or not acknowledged is there. Ids are beyond
// what a script can count with.
func TestTrimTakesNothingThatIsNeeded(t *testing.T) {
	server := redistest.Start(t, "--stream-node-max-entries", "7")
	client := server.Client()
	t.Cleanup(func() { _ = client.Close() })
	for round := range 12 {
		seed := rand.Uint64()
		t.Logf("round %d, seed %d", round, seed)
		trimAtRandom(t, client, fmt.Sprintf("s%d:0", round), rand.New(rand.NewPCG(seed, 0)))
	}
}

// trimmedStream is a stream and what is true of it.
type trimmedStream struct {
	tb      testing.TB
	client  *redis.Client
	key     string
	random  *rand.Rand
	next    streamID
	deleted map[string]bool
	groups  []string
	made    int
	removed int64
	trims   int
}

func trimAtRandom(t *testing.T, client *redis.Client, key string, random *rand.Rand) {
	t.Helper()
	s := &trimmedStream{
		tb: t, client: client, key: key, random: random, deleted: map[string]bool{},
		next: []streamID{{1, 0}, {9007199254740990, 0}, {99999, 18446744073709551600}, {18446744073709551000, 0}}[random.IntN(4)],
	}
	s.add(20)
	s.join("billing")
	for range 150 {
		switch n := random.IntN(20); {
		case n < 5:
			s.add(1 + random.IntN(30))
		case n < 13:
			s.read()
		case n == 13 && len(s.groups) < 4:
			s.join(fmt.Sprintf("g%d", s.made))
		case n == 14 && len(s.groups) > 1:
			g := s.groups[1+random.IntN(len(s.groups)-1)]
			s.do("XGROUP", "DESTROY", key, g)
			s.groups = slices.DeleteFunc(s.groups, func(x string) bool { return x == g })
		case n == 15:
			s.deleteOne()
		case n == 16:
			// Set back to some record that is there, or to the beginning.
			at := "0-0"
			if all := s.all(); len(all) > 0 && random.IntN(4) > 0 {
				at = all[random.IntN(len(all))]
			}
			s.do("XGROUP", "SETID", key, s.groups[random.IntN(len(s.groups))], at)
		default:
			s.trim(1 + random.IntN(60))
		}
	}
	// In the end all read and acknowledge all: what is left is one block.
	for _, g := range s.groups {
		for s.readAs(g, 100, 1) > 0 { //nolint:revive // until nothing is left
		}
		for _, p := range s.pending(g) {
			s.do("XACK", key, g, p)
		}
	}
	for s.trim(60) > 0 { //nolint:revive // until nothing is left
	}
	if n := client.XLen(context.Background(), key).Val(); n > 7 {
		t.Errorf("%d records are left although nobody needs them", n)
	}
	if s.removed == 0 || s.trims == 0 {
		t.Error("nothing was trimmed: the round shows nothing")
	}
}

func (s *trimmedStream) do(args ...any) {
	s.tb.Helper()
	if err := s.client.Do(context.Background(), args...).Err(); err != nil {
		s.tb.Fatalf("%v: %v", args, err)
	}
}

func (s *trimmedStream) add(n int) {
	s.tb.Helper()
	for range n {
		if s.next = s.next.next(); s.random.IntN(5) == 0 {
			s.next = streamID{s.next.ms + 1, 0}
		}
		s.do("XADD", s.key, s.next.String(), "n", "1")
	}
}

func (s *trimmedStream) join(group string) {
	s.tb.Helper()
	start := "0"
	if s.random.IntN(2) == 0 {
		start = "$"
	}
	s.do("XGROUP", "CREATE", s.key, group, start)
	s.groups = append(s.groups, group)
	s.made++
}

// read has a group read, and acknowledge some of what it has, in any order.
func (s *trimmedStream) read() {
	s.tb.Helper()
	g := s.groups[s.random.IntN(len(s.groups))]
	s.readAs(g, 1+s.random.IntN(20), s.random.IntN(3))
	pending := s.pending(g)
	s.random.Shuffle(len(pending), func(i, j int) { pending[i], pending[j] = pending[j], pending[i] })
	for i, id := range pending {
		switch {
		case s.random.IntN(10) == 0:
			s.do("XCLAIM", s.key, g, "c9", 0, id)
		case i%4 > 0:
			s.do("XACK", s.key, g, id)
		}
	}
}

func (s *trimmedStream) readAs(group string, count, consumer int) int {
	s.tb.Helper()
	got, err := s.client.XReadGroup(context.Background(), &redis.XReadGroupArgs{
		Group: group, Consumer: fmt.Sprintf("c%d", consumer), Streams: []string{s.key, ">"}, Count: int64(count), Block: -1,
	}).Result()
	if err != nil && err != redis.Nil { //nolint:errorlint // it is never wrapped
		s.tb.Fatal(err)
	}
	if len(got) == 0 {
		return 0
	}
	return len(got[0].Messages)
}

func (s *trimmedStream) pending(group string) []string {
	s.tb.Helper()
	page, err := s.client.XPendingExt(context.Background(), &redis.XPendingExtArgs{
		Stream: s.key, Group: group, Start: "-", End: "+", Count: 100_000,
	}).Result()
	if err != nil {
		s.tb.Fatal(err)
	}
	ids := make([]string, len(page))
	for i := range page {
		ids[i] = page[i].ID
	}
	return ids
}

func (s *trimmedStream) all() []string {
	s.tb.Helper()
	m, err := s.client.XRange(context.Background(), s.key, "-", "+").Result()
	if err != nil {
		s.tb.Fatal(err)
	}
	ids := make([]string, len(m))
	for i := range m {
		ids[i] = m[i].ID
	}
	return ids
}

func (s *trimmedStream) deleteOne() {
	s.tb.Helper()
	if all := s.all(); len(all) > 0 {
		id := all[s.random.IntN(len(all))]
		s.deleted[id] = true
		s.do("XDEL", s.key, id)
	}
}

// trim removes batch records at most, compares with what every group needed
// before, and returns how many it were.
func (s *trimmedStream) trim(batch int) (removed int64) {
	s.tb.Helper()
	before := s.all()
	needed := map[string]string{}
	groups, err := s.client.XInfoGroups(context.Background(), s.key).Result()
	if err != nil {
		s.tb.Fatal(err)
	}
	for i := range groups {
		g := &groups[i]
		for _, id := range s.pending(g.Name) {
			if !s.deleted[id] {
				needed[id] = g.Name
			}
		}
		at := parseID(g.LastDeliveredID)
		for _, id := range before {
			if at.less(parseID(id)) {
				needed[id] = g.Name
			}
		}
	}
	v, err := trimScript.Run(context.Background(), s.client, []string{s.key}, "billing", batch, 0, 0).Slice()
	if err != nil {
		s.tb.Fatal(err)
	}
	removed, length, holder, from, err := trimmed(v)
	if err != nil {
		s.tb.Fatal(err)
	}
	after := map[string]bool{}
	for _, id := range s.all() {
		after[id] = true
	}
	first := streamID{}
	for id, group := range needed {
		if !after[id] {
			s.tb.Errorf("%s is needed by %s and was trimmed", id, group)
		}
		if at := parseID(id); first == (streamID{}) || at.less(first) {
			first = at
		}
	}
	if int64(len(before)-len(after)) != removed || int64(len(after)) != length {
		s.tb.Errorf("it said that %d were removed and %d left, it is %d and %d", removed, length, len(before)-len(after), len(after))
	}
	if (holder == "") != (len(needed) == 0) && len(s.deleted) == 0 {
		s.tb.Errorf("%d are needed, and held by %q", len(needed), holder)
	}
	if holder != "" && len(needed) > 0 && first.less(parseID(from)) {
		s.tb.Errorf("it said that %s on are needed, and %s is", from, first)
	}
	s.removed += removed
	s.trims++
	return removed
}

// TestTrimKeepsWhatItIsTold: the newest records, and young ones.
func TestTrimKeepsWhatItIsTold(t *testing.T) {
	server := redistest.Start(t, "--stream-node-max-entries", "5")
	client := server.Client()
	t.Cleanup(func() { _ = client.Close() })
	ctx := t.Context()
	now, err := client.Time(ctx).Result()
	if err != nil {
		t.Fatal(err)
	}
	const key = "s:0"
	for i := range 100 {
		// One a minute, the last one now.
		id := fmt.Sprintf("%d-0", now.Add(time.Duration(i-99)*time.Minute).UnixMilli())
		if err := client.XAdd(ctx, &redis.XAddArgs{Stream: key, ID: id, Values: []string{"n", "1"}}).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if err := client.XGroupCreate(ctx, key, "billing", "$").Err(); err != nil {
		t.Fatal(err)
	}
	run := func(keep int64, age time.Duration) int64 {
		t.Helper()
		v, err := trimScript.Run(ctx, client, []string{key}, "billing", trimBatch, keep, age.Milliseconds()).Slice()
		if err != nil {
			t.Fatal(err)
		}
		_, length, _, _, err := trimmed(v)
		if err != nil {
			t.Fatal(err)
		}
		return length
	}
	for _, tc := range []struct {
		keep        int64
		age         time.Duration
		least, most int64
	}{
		{100, 0, 100, 100},
		{1000, 0, 100, 100},
		{80, 0, 80, 84},
		{0, 59*time.Minute + 30*time.Second, 60, 64},
		{40, time.Hour, 60, 64},
		{0, 1000 * time.Hour, 60, 64},
		{0, 0, 0, 4},
	} {
		if n := run(tc.keep, tc.age); n < tc.least || n > tc.most {
			t.Errorf("%+v: %d are left", tc, n)
		}
	}
	// Nothing to go by: no group of ours, no stream.
	if err := client.XGroupDestroy(ctx, key, "billing").Err(); err != nil {
		t.Fatal(err)
	}
	if err := client.XGroupCreate(ctx, key, "other", "$").Err(); err != nil {
		t.Fatal(err)
	}
	if err := trimScript.Run(ctx, client, []string{key}, "billing", trimBatch, 0, 0).Err(); err != redis.Nil { //nolint:errorlint // it is never wrapped
		t.Errorf("without our group: %v", err)
	}
	if err := trimScript.Run(ctx, client, []string{"nothing:0"}, "billing", trimBatch, 0, 0).Err(); err != redis.Nil { //nolint:errorlint // it is never wrapped
		t.Errorf("without the stream: %v", err)
	}
}
