package redis_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/redis-stream-coordinator/rsc/adapters/redis"
	"github.com/redis-stream-coordinator/rsc/adapters/redis/internal/redistest"
	"github.com/redis-stream-coordinator/rsc/core/port"
	"github.com/redis-stream-coordinator/rsc/core/routing"
)

// TestInspectShards: what is said of one group of a stream is what is there.
func TestInspectShards(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	c, s := raw(t, server.URL()), open(t, redis.Config{URL: server.URL()}).Streams()
	for _, step := range lagSteps {
		for _, command := range step.do {
			do(t, c, command)
		}
		groups := c.XInfoGroups(t.Context(), "s").Val()
		for _, group := range append([]goredis.XInfoGroup{{Name: "none"}}, groups...) {
			for _, countUpTo := range []int{0, 1, 100} {
				when := fmt.Sprintf("%s, group %s, counting up to %d", step.name, group.Name, countUpTo)
				checkShard(t, c, s, when, group, countUpTo)
			}
		}
	}
}

func checkShard(t *testing.T, c goredis.UniversalClient, s *redis.Streams, when string, group goredis.XInfoGroup, countUpTo int) {
	t.Helper()
	states, err := s.InspectShards(t.Context(), port.ShardQuery{Keys: []string{"s"}, Group: group.Name, CountUpTo: countUpTo})
	if err != nil || len(states) != 1 || states[0].Err != nil {
		t.Fatalf("%s: %+v, %v", when, states, err)
	}
	got := states[0]
	all := c.XRange(t.Context(), "s", "-", "+").Val()
	info := c.XInfoStream(t.Context(), "s").Val()
	first, last := "", ""
	if len(all) > 0 {
		first, last = all[0].ID, all[len(all)-1].ID
	}
	if !got.Exists || got.Length != int64(len(all)) || got.FirstID != first || got.LastID != last ||
		got.LastGeneratedID != info.LastGeneratedID || got.Added != info.EntriesAdded || got.MemoryBytes != port.Unknown {
		t.Errorf("%s: %+v, of %d entries from %s to %s, %d added", when, got, len(all), first, last, info.EntriesAdded)
	}
	if group.Name == "none" {
		if got.Group != nil {
			t.Errorf("%s: a group that is not there: %+v", when, got.Group)
		}
		return
	}
	truth, oldest := int64(0), ""
	for _, e := range c.XRange(t.Context(), "s", "("+group.LastDeliveredID, "+").Val() {
		if truth++; oldest == "" {
			oldest = e.ID
		}
	}
	g := got.Group
	switch {
	case g == nil:
		t.Fatalf("%s: the group is not seen", when)
	case g.Exact && g.Undelivered != truth, !g.Exact && (g.Undelivered > truth || countUpTo == 100):
		t.Errorf("%s: %d undelivered, exactly %v; there are %d", when, g.Undelivered, g.Exact, truth)
	case g.Estimate < g.Undelivered || g.Estimate > int64(len(all)):
		t.Errorf("%s: estimate %d, of at least %d and at most %d", when, g.Estimate, g.Undelivered, len(all))
	}
	if g.OldestID != oldest || g.LastDeliveredID != group.LastDeliveredID || g.Pending != group.Pending || g.Consumers != group.Consumers {
		t.Errorf("%s: %+v, oldest %q, as Redis has it %+v", when, g, oldest, group)
	}
}

// TestInspectShardsOneByOne: a key that is missing, or holds something else, keeps
// nobody from hearing of the others.
func TestInspectShardsOneByOne(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	c, s := raw(t, server.URL()), open(t, redis.Config{URL: server.URL()}).Streams()
	do(t, c, "XADD a 1-0 k v")
	do(t, c, "SET b text")
	states, err := s.InspectShards(t.Context(), port.ShardQuery{Keys: []string{"a", "b", "none"}, Memory: true, Place: true})
	if err != nil {
		t.Fatal(err)
	}
	if a := states[0]; a.Err != nil || a.Length != 1 || a.MemoryBytes <= 0 || a.Place != (port.ShardPlace{}) {
		t.Errorf("a stream: %+v", a)
	}
	if b := states[1]; b.Err == nil || !strings.Contains(b.Err.Error(), "b: ") || b.Exists {
		t.Errorf("a text: %+v", b)
	}
	if none := states[2]; none.Err != nil || none.Exists {
		t.Errorf("nothing: %+v", none)
	}
}

func TestInspectShardsOfACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 2, false)
	c, s := rawCluster(t, cluster.Addrs()), openCluster(t, cluster)
	var keys []string
	for shard := range 16 {
		key := routing.StreamKey("orders", shard)
		keys = append(keys, key)
		do(t, c, "XADD "+key+" 1-0 k v")
		do(t, c, "XGROUP CREATE "+key+" g 0")
	}
	states, err := s.InspectShards(t.Context(), port.ShardQuery{Keys: keys, Group: "g", CountUpTo: 10, Place: true})
	if err != nil {
		t.Fatal(err)
	}
	owners := map[string]bool{}
	for i, state := range states {
		slot := routing.Slot(keys[i])
		owner := cluster.Owner(slot)
		owners[owner.Addr] = true
		if state.Err != nil || state.Group == nil || state.Group.Undelivered != 1 || !state.Group.Exact {
			t.Errorf("%s: %+v", keys[i], state)
		}
		if p := state.Place; p.Endpoint != owner.Addr || p.NodeID != owner.NodeID() || slot < p.FirstSlot || slot > p.LastSlot {
			t.Errorf("%s: slot %d is said to be at %+v, and is at %s", keys[i], slot, p, owner.Addr)
		}
	}
	if len(owners) != 2 {
		t.Errorf("all keys are at %v: nothing was tried", owners)
	}
	ranges := make([]port.EntryRange, len(keys))
	for i, key := range keys {
		ranges[i] = port.EntryRange{Key: key, Count: 5}
	}
	pages, err := s.ReadEntries(t.Context(), ranges)
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range pages {
		if len(p.Entries) != 1 || p.More {
			t.Errorf("%s: %+v", keys[i], p)
		}
	}
}

// TestReadEntries pages through streams of entries of many sizes, from both ends.
func TestReadEntries(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	c, s := raw(t, server.URL()), open(t, redis.Config{URL: server.URL()}).Streams()
	const entries = 200
	var ids []string
	for i := range entries {
		id := fmt.Sprintf("%d-%d", i/3+1, i%3)
		ids = append(ids, id)
		if err := c.XAdd(t.Context(), &goredis.XAddArgs{Stream: "s", ID: id, Values: []any{"k", strings.Repeat("v", i*37%5000), "k", i}}).Err(); err != nil {
			t.Fatal(err)
		}
	}
	backward := slices.Clone(ids)
	slices.Reverse(backward)
	for _, count := range []int{1, 15, 16, 17, 100, entries, entries + 1} {
		for _, bytes := range []int{0, 1, 20_000} {
			for direction, want := range map[bool][]string{false: ids, true: backward} {
				var got []string
				after := ""
				for range 2*entries + 2 {
					pages, err := s.ReadEntries(t.Context(), []port.EntryRange{{Key: "none", Count: count}, {Key: "s", Backward: direction, After: after, Count: count, Bytes: bytes}})
					if err != nil {
						t.Fatal(err)
					}
					p := pages[1]
					if len(pages[0].Entries) > 0 || len(p.Entries) > count || len(p.Entries) == 0 && p.More {
						t.Fatalf("count %d, bytes %d: a page of %d, more %v", count, bytes, len(p.Entries), p.More)
					}
					for _, e := range p.Entries {
						got = append(got, e.ID)
						after = e.ID
						if len(e.Fields) != 4 || e.Fields[0] != "k" {
							t.Fatalf("fields %q", e.Fields)
						}
					}
					if !p.More {
						break
					}
				}
				if !slices.Equal(got, want) {
					t.Errorf("count %d, bytes %d, backward %v: read %d entries, want %d", count, bytes, direction, len(got), len(want))
				}
			}
		}
	}
	pages, err := s.ReadEntries(t.Context(), []port.EntryRange{{Key: "s", Only: "7-1", Count: 1}, {Key: "s", Only: "7000-1", Count: 1}, {Key: "none", Only: "7-1", Count: 1}})
	if err != nil || len(pages[0].Entries) != 1 || pages[0].Entries[0].ID != "7-1" || pages[0].More || len(pages[1].Entries)+len(pages[2].Entries) != 0 {
		t.Errorf("one by its id: %+v, %v", pages, err)
	}
	do(t, c, "SET b text")
	if _, err := s.ReadEntries(t.Context(), []port.EntryRange{{Key: "b", Count: 1}}); err == nil {
		t.Error("a text was read as a stream")
	}
}
