package redis_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/redis-stream-coordinator/rsc/adapters/redis"
	"github.com/redis-stream-coordinator/rsc/adapters/redis/internal/redistest"
	"github.com/redis-stream-coordinator/rsc/core/port"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
	"github.com/redis-stream-coordinator/rsc/core/routing"
)

// looked looks at shards of the stream orders that are all there.
func looked(t *testing.T, s *redis.Streams, indexes ...int) []port.Shard {
	t.Helper()
	shards, err := s.LookAt(t.Context(), "orders", indexes)
	if err != nil {
		t.Fatal(err)
	}
	for _, sh := range shards {
		if !sh.Exists {
			t.Fatalf("shard %d is missing", sh.Index)
		}
	}
	return shards
}

// asLooked asks for shards as they were when they were looked at.
func asLooked(prefix string, shards []port.Shard) port.Retirement {
	r := port.Retirement{Prefix: prefix}
	for _, sh := range shards {
		r.Shards = append(r.Shards, port.RetireShard{Index: sh.Index, LastID: sh.LastID})
	}
	return r
}

func wantOutcomes(t *testing.T, s *redis.Streams, r port.Retirement, want ...port.RetireOutcome) {
	t.Helper()
	if got, err := s.Retire(t.Context(), r); err != nil || !slices.Equal(got, want) {
		t.Errorf("retire %+v: %v, %v; want %v", r.Shards, got, err, want)
	}
}

// TestRenewKeepsTheRest: of what Redis says of a stream and its groups, only the last
// generated id changes.
func TestRenewKeepsTheRest(t *testing.T) {
	t.Parallel()
	testRenewKeepsTheRest(t, redistest.Start(t).URL())
}

func testRenewKeepsTheRest(t *testing.T, url string) {
	t.Helper()
	c, s := raw(t, url), open(t, redis.Config{URL: url}).Streams()
	do(t, c, "XGROUP CREATE orders:0 g 0 MKSTREAM")
	for i := range 6 {
		do(t, c, fmt.Sprintf("XADD orders:0 %d-7 k v", i+1))
	}
	do(t, c, "XREADGROUP GROUP g c COUNT 2 STREAMS orders:0 >")
	do(t, c, "XDEL orders:0 1-7 3-7")
	before := streamInfo(t, c)
	groups := c.XInfoGroups(t.Context(), "orders:0").Val()
	if err := s.Provision(t.Context(), port.Provision{Prefix: "orders", End: 1, Groups: []string{"g"}, Renew: true}); err != nil {
		t.Fatal(err)
	}
	after := streamInfo(t, c)
	if before["last-generated-id"] != "6-7" || after["last-generated-id"] != "6-8" {
		t.Errorf("the last id was %v and is %v, want 6-7 and 6-8", before["last-generated-id"], after["last-generated-id"])
	}
	before["last-generated-id"] = after["last-generated-id"]
	if !maps.EqualFunc(before, after, func(a, b any) bool { return fmt.Sprint(a) == fmt.Sprint(b) }) {
		t.Errorf("the stream was\n%v\nand is\n%v", before, after)
	}
	if now := c.XInfoGroups(t.Context(), "orders:0").Val(); !slices.Equal(groups, now) {
		t.Errorf("the groups were\n%+v\nand are\n%+v", groups, now)
	}
}

// streamInfo is what the server says of the stream orders:0.
func streamInfo(t *testing.T, c *goredis.Client) map[any]any {
	t.Helper()
	info, ok := c.Do(t.Context(), "XINFO", "STREAM", "orders:0").Val().(map[any]any)
	if !ok {
		t.Fatal("no information about orders:0")
	}
	return info
}

// TestRenewAndReaders: a reader that waits is neither woken with nothing nor cut off, and
// is given what comes.
func TestRenewAndReaders(t *testing.T) {
	t.Parallel()
	url := redistest.Start(t).URL()
	c, s := raw(t, url), open(t, redis.Config{URL: url}).Streams()
	p := port.Provision{Prefix: "orders", End: 1, Groups: []string{"g"}, Start: protocol.StartEarliest}
	if err := s.Provision(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	type answer struct {
		streams []goredis.XStream
		err     error
	}
	answers := make(chan answer, 1)
	go func() {
		streams, err := c.XReadGroup(t.Context(), &goredis.XReadGroupArgs{Group: "g", Consumer: "c", Streams: []string{"orders:0", ">"}, Block: time.Minute}).Result()
		answers <- answer{streams, err}
	}()
	redistest.Eventually(t, "a reader that waits", func() bool {
		return strings.Contains(c.Info(t.Context(), "clients").Val(), "blocked_clients:1")
	})
	p.Renew = true
	if err := s.Provision(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	id := c.XAdd(t.Context(), &goredis.XAddArgs{Stream: "orders:0", NoMkStream: true, Values: []string{"k", "v"}}).Val()
	if got := <-answers; got.err != nil || len(got.streams) != 1 || len(got.streams[0].Messages) != 1 || got.streams[0].Messages[0].ID != id {
		t.Errorf("the reader was given %+v, want entry %s", got, id)
	}
}

// TestPendingEntryIsGone: what was handed out and not acknowledged is waited for, also
// when the entry itself was deleted. Emulators forget it.
func TestPendingEntryIsGone(t *testing.T) {
	t.Parallel()
	url := redistest.Start(t).URL()
	c, s := raw(t, url), open(t, redis.Config{URL: url}).Streams()
	do(t, c, "XGROUP CREATE orders:0 g 0 MKSTREAM")
	do(t, c, "XADD orders:0 1-1 k v")
	do(t, c, "XREADGROUP GROUP g c STREAMS orders:0 >")
	do(t, c, "XDEL orders:0 1-1")
	seen := looked(t, s, 0)
	if cursor := seen[0].Cursors[0]; cursor.Pending != 1 || cursor.OldestID != "1-1" || seen[0].Records != 0 {
		t.Errorf("%+v", seen[0])
	}
	wantOutcomes(t, s, asLooked("orders", seen), port.ShardBusy)
	do(t, c, "XACK orders:0 g 1-1")
	wantOutcomes(t, s, asLooked("orders", seen), port.ShardGone)
}

// TestWholeBacklog: what a group has not been given at all is counted exactly, however
// much it is.
func TestWholeBacklog(t *testing.T) {
	t.Parallel()
	url := redistest.Start(t).URL()
	c, s := raw(t, url), open(t, redis.Config{URL: url}).Streams()
	for i := range 500 {
		do(t, c, fmt.Sprintf("XADD orders:0 %d-1 k v", i+1))
	}
	do(t, c, "XGROUP CREATE orders:0 all 0")
	do(t, c, "XGROUP CREATE orders:0 some 10-1")
	do(t, c, "XTRIM orders:0 MINID 101-1")
	for _, cursor := range looked(t, s, 0)[0].Cursors {
		if cursor.NextID != "101-1" || cursor.Unread != 400 || cursor.Lag < port.Unknown {
			t.Errorf("%+v, want 400 unread from 101-1 on", cursor)
		}
	}
}

// TestGroupBeyondTheEnd: somebody has set groups to where nothing will ever come.
func TestGroupBeyondTheEnd(t *testing.T) {
	t.Parallel()
	url := redistest.Start(t).URL()
	c, s := raw(t, url), open(t, redis.Config{URL: url}).Streams()
	do(t, c, "XADD orders:0 1-1 k v")
	do(t, c, "XGROUP CREATE orders:0 far 99-0")
	do(t, c, "XGROUP CREATE orders:0 last 18446744073709551615-18446744073709551615")
	seen := looked(t, s, 0)
	for _, cursor := range seen[0].Cursors {
		if cursor.NextID != "" || cursor.Unread != 0 {
			t.Errorf("%+v", cursor)
		}
	}
	wantOutcomes(t, s, asLooked("orders", seen), port.ShardGone)
}

// TestShardScriptsAreForgotten: a server that forgot the scripts is taught them again.
func TestShardScriptsAreForgotten(t *testing.T) {
	t.Parallel()
	url := redistest.Start(t).URL()
	c, s := raw(t, url), open(t, redis.Config{URL: url}).Streams()
	for round := range 3 {
		p := port.Provision{Prefix: "orders", End: 20, Groups: []string{"g"}, Renew: true}
		if err := s.Provision(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		c.ScriptFlush(t.Context())
		seen := looked(t, s, 3, 4)
		c.ScriptFlush(t.Context())
		wantOutcomes(t, s, asLooked("orders", seen), port.ShardGone, port.ShardGone)
		if round > 0 {
			c.ScriptFlush(t.Context())
		}
	}
	// What is known is not sent as text.
	texts := calls(t, c, "eval")
	looked(t, s, 1, 2)
	if n := calls(t, c, "eval") - texts; n > 2 {
		t.Errorf("%d texts were sent for 2 shards", n)
	}
	texts = calls(t, c, "eval")
	looked(t, s, 1, 2)
	if n := calls(t, c, "eval") - texts; n != 0 {
		t.Errorf("%d texts were sent to a server that knows the script", n)
	}
}

// TestShardRules: the error names what the user's ACL lacks.
func TestShardRules(t *testing.T) {
	t.Parallel()
	url := redistest.Start(t).URL()
	c := raw(t, url)
	for _, command := range []string{
		"XADD orders:0 1-1 k v", "XGROUP CREATE orders:0 g 0", "XREADGROUP GROUP g c STREAMS orders:0 >",
		"XADD orders:1 1-1 k v", "XGROUP CREATE orders:1 g $",
	} {
		do(t, c, command)
	}
	for lacks, call := range map[string]func(*redis.Streams) error{
		"xpending": func(s *redis.Streams) error { _, err := s.LookAt(t.Context(), "orders", []int{0}); return err },
		"unlink": func(s *redis.Streams) error {
			_, err := s.Retire(t.Context(), port.Retirement{Prefix: "orders", Shards: []port.RetireShard{{Index: 1, LastID: "1-1"}}})
			return err
		},
		"xsetid": func(s *redis.Streams) error {
			return s.Provision(t.Context(), port.Provision{Prefix: "orders", End: 2, Groups: []string{"g"}, Renew: true})
		},
		"type": func(s *redis.Streams) error { _, err := s.Find(t.Context(), "orders", 0, 2); return err },
	} {
		user := "no" + lacks
		if err := c.Do(t.Context(), "ACL", "SETUSER", user, "on", ">pw", "~*", "+@all", "-"+lacks).Err(); err != nil {
			t.Fatal(err)
		}
		err := call(open(t, redis.Config{URL: url, Username: user, Password: "pw"}).Streams())
		if err == nil || !strings.Contains(err.Error(), "ACL SETUSER "+user+" ") || !strings.Contains(err.Error(), "+"+lacks) {
			t.Errorf("without %s: %v", lacks, err)
		}
	}
	for _, key := range []string{"orders:0", "orders:1"} {
		if id := c.XInfoStream(t.Context(), key).Val().LastGeneratedID; id != "1-1" {
			t.Errorf("%s was touched: its last id is %s", key, id)
		}
	}
}

// TestRetireRaces: a producer writes on, a member reads and acknowledges, and somebody
// proves and retires without end. Every record that was stored was read.
func TestRetireRaces(t *testing.T) {
	t.Parallel()
	url := redistest.Start(t).URL()
	c, s := raw(t, url), open(t, redis.Config{URL: url}).Streams()
	for round := range 200 {
		raceRetirement(t, c, s, fmt.Sprintf("race%d", round))
	}
}

func raceRetirement(t *testing.T, c *goredis.Client, s *redis.Streams, prefix string) {
	t.Helper()
	mustProvision(t, s, port.Provision{Prefix: prefix, End: 1, Groups: []string{"g"}, Renew: true})
	ctx, key := t.Context(), routing.StreamKey(prefix, 0)
	var stored, read atomic.Int64
	var over atomic.Bool
	var all sync.WaitGroup
	all.Go(func() { // writes for a while, or until the key is gone
		for range rand.IntN(30) {
			time.Sleep(time.Duration(rand.IntN(500)) * time.Microsecond)
			err := c.XAdd(ctx, &goredis.XAddArgs{Stream: key, NoMkStream: true, Values: []string{"k", "v"}}).Err()
			if err != nil {
				if !errors.Is(err, goredis.Nil) {
					t.Error(err)
				}
				return
			}
			stored.Add(1)
		}
	})
	all.Go(func() {
		for !over.Load() {
			streams, err := c.XReadGroup(ctx, &goredis.XReadGroupArgs{Group: "g", Consumer: "c", Streams: []string{key, ">"}, Count: 1, Block: -1}).Result()
			if errors.Is(err, goredis.Nil) {
				continue
			}
			if err != nil {
				return // the group is gone
			}
			for _, m := range streams[0].Messages {
				c.XAck(ctx, key, "g", m.ID)
				read.Add(1)
			}
		}
	})
	defer all.Wait()
	defer over.Store(true)
	for gone := false; !gone; {
		seen, err := s.LookAt(ctx, prefix, []int{0})
		if err != nil {
			t.Fatal(err)
		}
		outcomes, err := s.Retire(ctx, asLooked(prefix, seen))
		if err != nil {
			t.Fatal(err)
		}
		gone = outcomes[0] == port.ShardGone
	}
	over.Store(true)
	all.Wait()
	if stored.Load() != read.Load() {
		t.Fatalf("%s: %d records were stored and %d read", prefix, stored.Load(), read.Load())
	}
}

func mustProvision(t *testing.T, s *redis.Streams, p port.Provision) {
	t.Helper()
	if err := s.Provision(t.Context(), p); err != nil {
		t.Fatal(err)
	}
}

// TestShardsAway: no server, no proof and nothing retired.
func TestShardsAway(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := open(t, redis.Config{URL: server.URL()}).Streams()
	mustProvision(t, s, port.Provision{Prefix: "orders", End: 2, Groups: []string{"g"}})
	proof := asLooked("orders", looked(t, s, 0, 1))
	server.Kill()
	if shards, err := s.LookAt(t.Context(), "orders", []int{0}); err == nil {
		t.Errorf("look: %+v", shards)
	}
	if outcomes, err := s.Retire(t.Context(), proof); err == nil {
		t.Errorf("retire: %+v", outcomes)
	}
	if found, err := s.Find(t.Context(), "orders", 0, 2); err == nil {
		t.Errorf("find: %+v", found)
	}
}
