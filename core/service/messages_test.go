package service_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/redis-stream-coordinator/rsc/core/memstore"
	"github.com/redis-stream-coordinator/rsc/core/port/porttest"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
	"github.com/redis-stream-coordinator/rsc/core/service"
)

// onRedis starts a coordinator with a model of the Redis that holds the streams, and a
// stream of four shards with a group.
func onRedis(t *testing.T) (*service.Coordinator, *porttest.Model) {
	t.Helper()
	redis := new(porttest.Model)
	c := start(t, memstore.New(), func(_ *service.Config, ports *service.Ports) { ports.Streams, ports.Inspector = redis, redis })
	if _, err := c.CreateStream(t.Context(), "orders", shards(4)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.CreateGroup(t.Context(), "orders", "billing", byTest); err != nil {
		t.Fatal(err)
	}
	return c, redis
}

func TestPagesOverShards(t *testing.T) { synctest.Test(t, pagesOverShards) }

// pagesOverShards pages in both directions through shards of very different lengths:
// every record comes once, in the order of the ids, and no page ends early.
func pagesOverShards(t *testing.T) {
	c, redis := onRedis(t)
	const records = 137
	var ids []string
	for i := range records {
		// Most lie in shard 0, none in shard 2; some ids are the same in two shards.
		shard := 0
		switch {
		case i%10 == 9:
			shard = 1
		case i%25 == 24:
			shard = 3
		}
		id := fmt.Sprintf("%d-%d", 1000+i/2, i%2)
		redis.Add(fmt.Sprintf("orders:%d", shard), id, "payload", fmt.Sprint(i), "long", strings.Repeat("x", i%7*1000))
		ids = append(ids, id+"@"+fmt.Sprint(shard))
		if i%50 == 0 {
			redis.Add("orders:3", id, "payload", "same id")
			ids = append(ids, id+"@3")
		}
	}
	backward := slices.Clone(ids)
	slices.SortStableFunc(backward, func(a, b string) int {
		ia, ib := slices.IndexFunc(ids, func(s string) bool { return idOf(s) == idOf(a) }), slices.IndexFunc(ids, func(s string) bool { return idOf(s) == idOf(b) })
		return ib - ia // equal ids stay in the order of their shards
	})
	for _, limit := range []int{1, 2, 7, 25, 100, records, 1000} {
		for direction, want := range map[protocol.Direction][]string{protocol.Forward: ids, protocol.Backward: backward} {
			got := readAll(t, c, protocol.MessageQuery{All: true, Direction: direction, Limit: limit, Count: true}, len(ids))
			if !slices.Equal(got, want) {
				t.Errorf("limit %d, %s: %d records, want %d in order\n%v\n%v", limit, direction, len(got), len(want), got, want)
			}
		}
	}
	for _, limit := range []int{1, 10, 1000} {
		one := readAll(t, c, protocol.MessageQuery{Shards: []protocol.ShardIndex{1}, Direction: protocol.Forward, Limit: limit}, 0)
		if len(one) != records/10 {
			t.Errorf("limit %d: %d records of one shard, want %d", limit, len(one), records/10)
		}
	}
}

func TestPagesOverManyShards(t *testing.T) { synctest.Test(t, pagesOverManyShards) }

// pagesOverManyShards: the cursor stays short, and nothing is lost or comes twice where
// many shards have records with the same id.
func pagesOverManyShards(t *testing.T) {
	c, redis := onRedis(t)
	const many = 700
	if _, err := c.CreateStream(t.Context(), "wide", shards(many)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.CreateGroup(t.Context(), "wide", "billing", byTest); err != nil {
		t.Fatal(err)
	}
	for shard := range many {
		for _, id := range []string{"5-0", "5-1", fmt.Sprintf("%d-0", 10+shard%3)} {
			redis.Add(fmt.Sprintf("wide:%d", shard), id, "k", "v")
		}
	}
	for _, direction := range []protocol.Direction{protocol.Forward, protocol.Backward} {
		seen := map[string]int{}
		last, q := "", protocol.MessageQuery{All: true, Direction: direction, Limit: 300}
		for pages := 0; ; pages++ {
			m, err := c.Messages(t.Context(), "wide", "billing", q)
			if err != nil || pages > 20 {
				t.Fatalf("page %d: %v", pages, err)
			}
			for _, r := range m.Records {
				key := fmt.Sprintf("%s@%04d", r.RecordID, r.Shard.ShardIndex)
				seen[key]++
				if id := idOf(key); id != last && last != "" && (compareIDs(id, last) < 0) != (direction == protocol.Backward) {
					t.Fatalf("%s after %s", id, last)
				}
				last = idOf(key)
			}
			if q.Cursor = m.NextCursor; q.Cursor == "" {
				break
			}
			if len(q.Cursor) > 20_000 {
				t.Fatalf("a cursor of %d bytes", len(q.Cursor))
			}
		}
		if len(seen) != 3*many {
			t.Errorf("%s: %d records, want %d", direction, len(seen), 3*many)
		}
		for key, n := range seen {
			if n != 1 {
				t.Errorf("%s: %s came %d times", direction, key, n)
			}
		}
	}
}

// compareIDs orders ids whose parts have no leading zeroes.
func compareIDs(a, b string) int {
	for i, left := range strings.Split(a, "-") {
		right := strings.Split(b, "-")[i]
		if c := cmp.Or(cmp.Compare(len(left), len(right)), cmp.Compare(left, right)); c != 0 {
			return c
		}
	}
	return 0
}

func idOf(s string) string { id, _, _ := strings.Cut(s, "@"); return id }

// readAll follows the cursors to the end. Each page but the last is full.
func readAll(t *testing.T, c *service.Coordinator, q protocol.MessageQuery, total int) []string {
	t.Helper()
	var got []string
	for range 1000 {
		m, err := c.Messages(t.Context(), "orders", "billing", q)
		if err != nil {
			t.Fatal(err)
		}
		if q.Count && m.Total != int64(total) {
			t.Fatalf("%d records in all, want %d", m.Total, total)
		}
		for _, r := range m.Records {
			got = append(got, fmt.Sprintf("%s@%d", r.RecordID, r.Shard.ShardIndex))
		}
		if m.NextCursor == "" {
			return got
		}
		if len(m.Records) != q.Limit {
			t.Fatalf("a page of %d with a cursor behind it, want %d", len(m.Records), q.Limit)
		}
		q.Cursor = m.NextCursor
	}
	t.Fatal("the pages do not end")
	return nil
}

func TestPagesFromTheEnd(t *testing.T) { synctest.Test(t, pagesFromTheEnd) }

// pagesFromTheEnd: the last page and those before it are the pages that one comes to
// from the beginning.
func pagesFromTheEnd(t *testing.T) {
	c, redis := onRedis(t)
	for i := range 53 {
		redis.Add(fmt.Sprintf("orders:%d", i%3), fmt.Sprintf("%d-0", 1000+i), "payload", fmt.Sprint(i))
	}
	for _, direction := range []protocol.Direction{protocol.Forward, protocol.Backward} {
		for _, limit := range []int{1, 10, 53, 60} {
			q := protocol.MessageQuery{All: true, Direction: direction, Limit: limit}
			all := readAll(t, c, q, 0)
			pages := (len(all) + limit - 1) / limit
			for n := range pages + 2 {
				q.Cursor = fmt.Sprintf("__rsc_tail__:%d", n)
				if n == 0 {
					q.Cursor = "__rsc_last__"
				}
				m, err := c.Messages(t.Context(), "orders", "billing", q)
				if err != nil {
					t.Fatal(err)
				}
				page := max(0, pages-1-n)
				want := all[page*limit : min(len(all), (page+1)*limit)]
				var got []string
				for _, r := range m.Records {
					got = append(got, fmt.Sprintf("%s@%d", r.RecordID, r.Shard.ShardIndex))
				}
				next := ""
				if before := min(n, pages-1); before > 0 {
					next = fmt.Sprintf("__rsc_tail__:%d", before-1)
				}
				if !slices.Equal(got, want) || m.NextCursor != next {
					t.Errorf("%s, limit %d, %d before the last: %v, next %q; want %v, next %q", direction, limit, n, got, m.NextCursor, want, next)
				}
			}
		}
	}
	_, before := redis.Counts()
	if _, err := c.Messages(t.Context(), "orders", "billing", protocol.MessageQuery{All: true, Direction: protocol.Forward, Limit: 1, Cursor: "__rsc_last__"}); err != nil {
		t.Fatal(err)
	}
	if _, after := redis.Counts(); after-before > 8 {
		t.Errorf("the last record was found by reading %d", after-before)
	}
}

func TestRecordsById(t *testing.T) { synctest.Test(t, recordsByID) }

func recordsByID(t *testing.T) {
	c, redis := onRedis(t)
	redis.Add("orders:1", "1700000000000-3", "payload", "a\xffb", "k", "1", "k", "2")
	redis.Add("orders:3", "1700000000000-3", "other", "c")
	m, err := c.Messages(t.Context(), "orders", "billing", protocol.MessageQuery{RecordID: "1700000000000-3", Direction: protocol.Backward, Cursor: "not looked at"})
	if err != nil || len(m.Records) != 2 || m.NextCursor != "" {
		t.Fatalf("%+v, %v", m, err)
	}
	first, second := m.Records[0], m.Records[1]
	if first.StreamKey != "orders:1" || first.Payload == nil || *first.Payload != "a�b" || first.Fields["k"] != "2" {
		t.Errorf("%+v", first)
	}
	if first.RecordTimestampMs == nil || *first.RecordTimestampMs != 1_700_000_000_000 || first.RecordTime == nil || first.RecordTime.Year() != 2023 {
		t.Errorf("%+v", first)
	}
	if second.StreamKey != "orders:3" || second.Payload != nil {
		t.Errorf("%+v", second)
	}
}

func TestMessagesAreRefused(t *testing.T) { synctest.Test(t, messagesRefused) }

func messagesRefused(t *testing.T) {
	c, redis := onRedis(t)
	redis.Add("orders:0", "1-0", "k", "v")
	ask := func(change func(*protocol.MessageQuery)) error {
		q := protocol.MessageQuery{Shards: []protocol.ShardIndex{0}, Direction: protocol.Forward}
		change(&q)
		_, err := c.Messages(t.Context(), "orders", "billing", q)
		return err
	}
	for what, change := range map[string]func(*protocol.MessageQuery){
		"direction":     func(q *protocol.MessageQuery) { q.Direction = "UP" },
		"shard":         func(q *protocol.MessageQuery) { q.Shards[0] = 4 },
		"below":         func(q *protocol.MessageQuery) { q.Shards[0] = -1 },
		"record id":     func(q *protocol.MessageQuery) { q.RecordID = "x" },
		"cursor":        func(q *protocol.MessageQuery) { q.Cursor = "x" },
		"sign":          func(q *protocol.MessageQuery) { q.Cursor = "+1-0" },
		"many":          func(q *protocol.MessageQuery) { q.Cursor = "all:0=1-0,1" },
		"many, no id":   func(q *protocol.MessageQuery) { q.Cursor = "all:0=x" },
		"last":          func(q *protocol.MessageQuery) { q.All, q.Cursor = true, "at:1" },
		"last, no id":   func(q *protocol.MessageQuery) { q.All, q.Cursor = true, "at:1=x" },
		"many, shard":   func(q *protocol.MessageQuery) { q.Cursor = "all:99999=1-0" },
		"tail":          func(q *protocol.MessageQuery) { q.Cursor = "__rsc_tail__:-1" },
		"an id for all": func(q *protocol.MessageQuery) { q.All, q.Cursor = true, "1-0" },
	} {
		if err := ask(change); !errors.Is(err, protocol.ErrInvalidRequest) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for i := range 10_100 {
		redis.Add("orders:1", fmt.Sprintf("%d-0", i+1), "k", "v")
	}
	far := func(q *protocol.MessageQuery) { q.All, q.Limit, q.Cursor = true, 1, "__rsc_tail__:10050" }
	if err := ask(far); !errors.Is(err, protocol.ErrInvalidRequest) {
		t.Errorf("a page far from the end: %v", err)
	}
	redis.SetAway(errors.New("gone"))
	if err := ask(func(*protocol.MessageQuery) {}); !errors.Is(err, protocol.ErrRedisUnavailable) {
		t.Errorf("without Redis: %v", err)
	}
	bare := start(t, memstore.New(), nil)
	if _, err := bare.CreateGroup(t.Context(), "orders", "billing", byTest); err != nil {
		t.Fatal(err)
	}
	if _, err := bare.Messages(t.Context(), "orders", "billing", protocol.MessageQuery{All: true, Direction: protocol.Forward}); !errors.Is(err, protocol.ErrRedisNotConfigured) {
		t.Errorf("without a Redis: %v", err)
	}
	if _, err := bare.Messages(context.Background(), "orders", "none", protocol.MessageQuery{}); !errors.Is(err, protocol.ErrGroupNotFound) {
		t.Errorf("of no group: %v", err)
	}
}
