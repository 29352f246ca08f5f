package producer_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redis-stream-coordinator/rsc/producer"
	"github.com/redis-stream-coordinator/rsc/producer/internal/redistest"
)

func limited(length int64, policy producer.FullPolicy) func(*producer.Config) {
	return func(cfg *producer.Config) { cfg.MaxStreamLength, cfg.WhenFull = length, policy }
}

// publishAll publishes by each API in turn and returns the codes.
func publishAll(t *testing.T, p *producer.Producer, api string, messages []producer.Message) string {
	t.Helper()
	switch api {
	case "Send":
		return firstOf(outcomes(t, send(t, p, messages...)))
	case "PublishBatch":
		results, _ := p.PublishBatch(t.Context(), messages)
		return codes(results)
	}
	var results []producer.Result
	for _, m := range messages {
		receipt, err := p.Publish(t.Context(), m)
		results = append(results, producer.Result{Receipt: receipt, Err: err})
	}
	return codes(results)
}

var apis = []string{"Publish", "PublishBatch", "Send"}

func TestRefuseWhenFull(t *testing.T) {
	server := redistest.Start(t)
	for _, api := range apis {
		t.Run(api, func(t *testing.T) {
			server.Client.FlushAll(t.Context())
			provision(t, server.Client, 2)
			p := open(t, newCoordinator(2), server.Addr, limited(30, ""), func(cfg *producer.Config) { cfg.RetryFor = time.Minute })
			got := publishAll(t, p, api, numbered(100, 100))
			if n := strings.Count(got, "ok"); n != 60 || strings.Count(got, "STREAM_FULL") != 40 {
				t.Errorf("%d stored: %s", n, got)
			}
			for shard := range 2 {
				if n := len(payloads(t, server.Client, shard)); n != 30 {
					t.Errorf("shard %d has %d records, want 30", shard, n)
				}
			}
			_, err := p.Publish(t.Context(), message("k", "x"))
			wantError(t, err, producer.ErrStreamFull, "30 records", "retention")
			if got := details(t, err); !got.Retryable {
				t.Error("is not called retryable")
			}
			// Room is room for as many as it is.
			server.Client.XTrimMaxLen(t.Context(), "orders:0", 28)
			server.Client.XTrimMaxLen(t.Context(), "orders:1", 28)
			got = publishAll(t, p, api, numbered(100, 100))
			if n := strings.Count(got, "ok"); n != 4 {
				t.Errorf("%d stored: %s", n, got)
			}
			if s := p.Stats(); s.Failed["STREAM_FULL"] != 40+1+96 || len(s.Dropped) != 0 {
				t.Errorf("stats %+v", s)
			}
		})
	}
}

// What stands behind a refused message of its key is not stored, though there
// may be room by then.
func TestRefuseWhenFullHoldsTheKeyBack(t *testing.T) {
	server := redistest.Start(t)
	provision(t, server.Client, 1)
	p := open(t, newCoordinator(1), server.Addr, limited(2, producer.RefuseWhenFull), func(cfg *producer.Config) { cfg.PipelineMessages = 3 })
	results, _ := p.PublishBatch(t.Context(), numbered(7, 1))
	if got, want := codes(results), "ok ok STREAM_FULL EARLIER_FAILED EARLIER_FAILED EARLIER_FAILED EARLIER_FAILED"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// The limit holds with several producers, and a record under a limit is the same
// as one without.
func TestLimitWithManyProducers(t *testing.T) {
	server := redistest.Start(t)
	provision(t, server.Client, 1)
	var running sync.WaitGroup
	for range 4 {
		p := open(t, newCoordinator(1), server.Addr, limited(100, producer.RefuseWhenFull))
		running.Go(func() {
			for i := range 60 {
				_, _ = p.Publish(context.Background(), message("k", strconv.Itoa(i)))
			}
		})
	}
	running.Wait()
	records := server.Client.XRange(t.Context(), "orders:0", "-", "+").Val()
	if len(records) != 100 {
		t.Errorf("%d records, want 100", len(records))
	}
	if got := fmt.Sprint(records[0].Values); got != "map[payload:0 rsc-key:k]" {
		t.Errorf("stored %s", got)
	}
}

func TestLimitOnAMissingKeyAndOthers(t *testing.T) {
	server := redistest.Start(t)
	for _, policy := range []producer.FullPolicy{producer.RefuseWhenFull, producer.DropWhenFull, producer.DropWhenFullExactly} {
		p := open(t, newCoordinator(1), server.Addr, limited(1, policy))
		server.Client.FlushAll(t.Context())
		_, err := p.Publish(t.Context(), message("k", "x"))
		wantError(t, err, producer.ErrShardMissing)
		if n := server.Client.Exists(t.Context(), "orders:0").Val(); n != 0 {
			t.Error("the key was created")
		}
		server.Client.Set(t.Context(), "orders:0", "x", 0)
		_, err = p.Publish(t.Context(), message("k", "x"))
		wantError(t, err, producer.ErrRedisRefused, "WRONGTYPE")
		if got := details(t, err); got.Retryable {
			t.Error("is called retryable")
		}
		server.Client.Del(t.Context(), "orders:0")
		provision(t, server.Client, 1)
		server.Client.ConfigSet(t.Context(), "maxmemory", "1")
		_, err = p.Publish(t.Context(), message("k", "x"))
		server.Client.ConfigSet(t.Context(), "maxmemory", "0")
		wantError(t, err, producer.ErrRedisRefused, "OOM")
		if got := details(t, err); !got.Retryable {
			t.Error("lack of memory is not called retryable")
		}
		// A server that has forgotten its scripts.
		for range 2 {
			server.Client.ScriptFlush(t.Context())
			server.Client.XTrimMaxLen(t.Context(), "orders:0", 0)
			results, err := p.PublishBatch(t.Context(), numbered(1, 1))
			if err != nil {
				t.Errorf("%v: %s", err, codes(results))
			}
		}
	}
}

// A script that is forgotten in the middle of a pipeline: the rest was not
// stored and is sent again.
func TestScriptForgottenInAPipeline(t *testing.T) {
	var mu sync.Mutex
	forgotten := false
	var order []string
	stub := redistest.NewStub(t, func(args []string) string {
		mu.Lock()
		defer mu.Unlock()
		body := args[len(args)-1]
		if args[0] == "evalsha" && body == "2" && !forgotten {
			forgotten = true
		}
		if forgotten && args[0] == "evalsha" && len(order) == 2 {
			return "-NOSCRIPT No matching script. Please use EVAL.\r\n"
		}
		order = append(order, body)
		return redistest.Bulk("1-1")
	})
	p := open(t, newCoordinator(1), stub.Addr, limited(100, ""), func(cfg *producer.Config) { cfg.RetryFor = time.Minute })
	results, err := p.PublishBatch(t.Context(), numbered(5, 1))
	if err != nil {
		t.Fatalf("%v: %s", err, codes(results))
	}
	if got := strings.Join(order, " "); got != "0 1 2 3 4" {
		t.Errorf("stored %s", got)
	}
	first := 0
	for _, args := range stub.Seen() {
		if args[0] == "eval" {
			first++
		}
	}
	if first != 3 { // all five, the third alone, the rest
		t.Errorf("the script was sent %d times, want once for each pipeline", first)
	}
}

// drops publishes n messages to one shard and returns what went.
func drops(t *testing.T, p *producer.Producer, n int) producer.Drops {
	t.Helper()
	before := p.Stats().Dropped[0]
	if got := publishAll(t, p, "Send", numbered(n, n)); strings.Trim(got, "ok ") != "" {
		t.Fatal(got)
	}
	after := p.Stats().Dropped[0]
	return producer.Drops{Records: after.Records - before.Records, Unread: after.Unread - before.Unread}
}

func readGroup(t *testing.T, client *redis.Client, group string, n int) {
	t.Helper()
	got, err := client.XReadGroup(t.Context(), &redis.XReadGroupArgs{
		Group: group, Consumer: "c", Streams: []string{"orders:0", ">"}, Count: int64(n), Block: -1,
	}).Result()
	if err != nil || len(got[0].Messages) != n {
		t.Fatalf("read %v, %v", got, err)
	}
}

// Nothing unread goes uncounted: the counters are compared with what the group
// furthest behind had been given.
func TestDropCountsWhatWasUnread(t *testing.T) {
	server := redistest.Start(t)
	provision(t, server.Client, 1)
	p := open(t, newCoordinator(1), server.Addr, limited(50, producer.DropWhenFullExactly))
	length := func() int64 { return server.Client.XLen(t.Context(), "orders:0").Val() }

	if got := drops(t, p, 50); got != (producer.Drops{}) || length() != 50 {
		t.Fatalf("below the limit: %+v, %d", got, length())
	}
	readGroup(t, server.Client, "g", 20)
	if got := drops(t, p, 15); got != (producer.Drops{Records: 15}) || length() != 50 {
		t.Errorf("15 that were read: %+v, %d", got, length())
	}
	if got := drops(t, p, 15); got != (producer.Drops{Records: 15, Unread: 10}) {
		t.Errorf("5 that were read, 10 that were not: %+v", got)
	}
	readGroup(t, server.Client, "g", 50)
	if got := drops(t, p, 10); got != (producer.Drops{Records: 10}) {
		t.Errorf("all were read: %+v", got)
	}
	// Another group that is behind.
	server.Client.XGroupCreate(t.Context(), "orders:0", "late", "0")
	readGroup(t, server.Client, "late", 1)
	if got := drops(t, p, 3); got != (producer.Drops{Records: 3, Unread: 2}) {
		t.Errorf("the group furthest behind counts: %+v", got)
	}
	// No group: nobody has read anything.
	server.Client.XGroupDestroy(t.Context(), "orders:0", "late")
	server.Client.XGroupDestroy(t.Context(), "orders:0", "g")
	if got := drops(t, p, 7); got != (producer.Drops{Records: 7, Unread: 7}) {
		t.Errorf("without a group: %+v", got)
	}
}

// The approximate policy counts as exactly, and stays near the limit.
func TestDropApproximately(t *testing.T) {
	server := redistest.Start(t)
	provision(t, server.Client, 1)
	const limit = 1000
	p := open(t, newCoordinator(1), server.Addr, limited(limit, producer.DropWhenFull))
	total, sum := 0, producer.Drops{}
	read := 0
	for round := range 20 {
		d := drops(t, p, 317)
		total += 317
		sum.Records += d.Records
		sum.Unread += d.Unread
		n := server.Client.XLen(t.Context(), "orders:0").Val()
		if n > limit+200 || int(sum.Records)+int(n) != total {
			t.Fatalf("round %d: %d records, %+v dropped of %d", round, n, sum, total)
		}
		read += 100
		readGroup(t, server.Client, "g", 100)
	}
	// Whatever was stored was read, is still there and unread, or was dropped unread.
	last := server.Client.XInfoGroups(t.Context(), "orders:0").Val()[0].LastDeliveredID
	unread := len(server.Client.XRange(t.Context(), "orders:0", "("+last, "+").Val())
	if got := read + unread + int(sum.Unread); got != total {
		t.Errorf("%d read, %d unread, %d dropped unread: %d of %d accounted for", read, unread, sum.Unread, got, total)
	}
}

// A limit on a stream that is far longer takes effect bit by bit.
func TestDropOnALongStream(t *testing.T) {
	server := redistest.Start(t)
	provision(t, server.Client, 1)
	plain := open(t, newCoordinator(1), server.Addr)
	drops(t, plain, 5000)
	readGroup(t, server.Client, "g", 4000)
	p := open(t, newCoordinator(1), server.Addr, limited(100, producer.DropWhenFullExactly))
	var went []producer.Drops
	for range 6 {
		went = append(went, drops(t, p, 1))
	}
	want := []producer.Drops{{1000, 0}, {1000, 0}, {1000, 0}, {1000, 0}, {905, 905}, {1, 1}}
	if fmt.Sprint(went) != fmt.Sprint(want) {
		t.Errorf("dropped %v, want %v", went, want)
	}
}
