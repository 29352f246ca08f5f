package producer_test

import (
	"context"
	"fmt"
	"net"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redis-stream-coordinator/rsc/core/routing"
	"github.com/redis-stream-coordinator/rsc/producer"
	"github.com/redis-stream-coordinator/rsc/producer/internal/redistest"
)

func clusterClient(tb testing.TB, servers []*redistest.Server) *redis.ClusterClient {
	tb.Helper()
	o := &redis.ClusterOptions{DialTimeout: redistest.Patience, ReadTimeout: redistest.Patience, WriteTimeout: redistest.Patience}
	for _, s := range servers {
		o.Addrs = append(o.Addrs, s.Addr)
	}
	c := redis.NewClusterClient(o)
	tb.Cleanup(func() { _ = c.Close() })
	return c
}

func openCluster(tb testing.TB, c producer.Transport, servers []*redistest.Server, change ...func(*producer.Config)) *producer.Producer {
	tb.Helper()
	return open(tb, c, "", append([]func(*producer.Config){func(cfg *producer.Config) {
		cfg.Redis = options()
		for _, s := range servers {
			cfg.Redis.Addrs = append(cfg.Redis.Addrs, s.Addr)
		}
		cfg.Redis.IsClusterMode = true
	}}, change...)...)
}

func TestClusterOfOne(t *testing.T) {
	t.Parallel() // starting a cluster is waiting
	servers := redistest.StartCluster(t, 1)
	provision(t, clusterClient(t, servers), 4)
	p := openCluster(t, newCoordinator(4), servers)
	if receipt, err := p.Publish(t.Context(), message("user:1", "x")); err != nil || receipt.StreamKey != "orders:3" {
		t.Fatalf("receipt %+v, %v", receipt, err)
	}
	results, err := p.PublishBatch(t.Context(), numbered(100, 10))
	if err != nil {
		t.Fatalf("%v: %s", err, codes(results))
	}
}

func TestBatchOverTheNodesOfACluster(t *testing.T) {
	t.Parallel() // starting a cluster is waiting
	servers := redistest.StartCluster(t, 2)
	client := clusterClient(t, servers)
	provision(t, client, 8)
	p := openCluster(t, newCoordinator(8), servers, func(cfg *producer.Config) { cfg.PipelineMessages = 16 })
	results, err := p.PublishBatch(t.Context(), numbered(500, 50))
	if err != nil {
		t.Fatalf("%v: %s", err, codes(results))
	}
	wantInOrder(t, client, 8, 500)
	for i, s := range servers {
		if n := s.Client.DBSize(t.Context()).Val(); n == 0 {
			t.Errorf("node %d holds no shard", i)
		}
	}
}

// wantInOrder checks that n numbered messages are stored, each key in order.
func wantInOrder(t *testing.T, client redis.UniversalClient, shards, n int) {
	t.Helper()
	last, total := make(map[string]int), 0
	for shard := range shards {
		for _, r := range client.XRange(t.Context(), routing.StreamKey(stream, shard), "-", "+").Val() {
			var i int
			if _, err := fmt.Sscan(fmt.Sprint(r.Values["payload"]), &i); err != nil {
				t.Fatal(err)
			}
			key := fmt.Sprint(r.Values["rsc-key"])
			if previous, ok := last[key]; ok && i <= previous {
				t.Fatalf("key %s: message %d is stored behind %d", key, i, previous)
			}
			last[key] = i
			total++
		}
	}
	if total != n {
		t.Errorf("%d records are stored, want %d", total, n)
	}
}

// A slot moves to the other node while the producer believes it is where it was,
// and while half of the move is done: MOVED and ASK are followed, nothing is
// stored twice, and order is kept.
func TestSlotThatMoves(t *testing.T) {
	t.Parallel() // starting a cluster is waiting
	servers := redistest.StartCluster(t, 2)
	client := clusterClient(t, servers)
	provision(t, client, 4)
	p := openCluster(t, newCoordinator(4), servers)
	var sent []producer.Message
	publish := func(what string) {
		t.Helper()
		from := len(sent)
		sent = append(sent, numbered(100, 10)...)
		for i := range sent {
			sent[i].Payload = fmt.Append(nil, i)
		}
		results, err := p.PublishBatch(t.Context(), sent[from:])
		if err != nil {
			t.Fatalf("%s: %v: %s", what, err, codes(results))
		}
		m := message("k0", fmt.Sprint(len(sent)))
		sent = append(sent, m)
		if _, err := p.Publish(t.Context(), m); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	publish("at first")

	slots := make(map[int]bool)
	for shard := range 4 {
		slots[routing.Slot(routing.StreamKey(stream, shard))] = true
	}
	for slot := range slots {
		from, to := servers[0], servers[1]
		if slot >= 16384/2 {
			from, to = to, from
		}
		redistest.MoveSlot(t, slot, from, to, true)
		publish("half way")
		redistest.FinishMove(t, slot, from, to)
		publish("moved")
	}
	client.ReloadState(t.Context())
	eventually(t, "the test's own client to see the moves", func() bool {
		total := int64(0)
		for shard := range 4 {
			n, err := client.XLen(t.Context(), routing.StreamKey(stream, shard)).Result()
			if err != nil {
				return false
			}
			total += n
		}
		return total == int64(len(sent))
	})
	wantInOrder(t, client, 4, len(sent))
	for _, redirect := range []string{"ASK", "MOVED"} {
		seen := false
		for _, s := range servers {
			seen = seen || strings.Contains(s.Client.Info(t.Context(), "errorstats").Val(), "errorstat_"+redirect+":")
		}
		if !seen {
			t.Errorf("no server answered %s, so nothing was tested", redirect)
		}
	}
}

// The cluster client of go-redis sends again after a broken connection whatever
// MaxRetries says. The producer must not.
func TestLostReplyInACluster(t *testing.T) {
	t.Parallel() // starting a cluster is waiting
	servers := redistest.StartCluster(t, 2)
	client := clusterClient(t, servers)
	provision(t, client, 8)
	proxies := make(map[string]*redistest.Proxy)
	for _, s := range servers {
		proxies[s.Addr] = redistest.NewProxy(t, s.Addr)
	}
	p := openCluster(t, newCoordinator(8), servers, func(cfg *producer.Config) {
		cfg.Redis.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, proxies[addr].Addr)
		}
		cfg.RetryFor = time.Minute
	})
	if _, err := p.Publish(t.Context(), message("user:1", "x")); err != nil {
		t.Fatal(err)
	}
	owner := proxies[servers[0].Addr]
	if routing.Slot("orders:7") >= 16384/2 {
		owner = proxies[servers[1].Addr]
	}
	owner.LoseReply("NOMKSTREAM", 0)
	_, err := p.Publish(t.Context(), message("user:1", "lost"))
	wantError(t, err, producer.ErrOutcomeUnknown, "orders:7")
	if got, want := payloads(t, client, 7), []string{"x", "lost"}; !reflect.DeepEqual(got, want) {
		t.Errorf("stored %v, want %v", got, want)
	}

	for _, proxy := range proxies {
		proxy.LoseReply("NOMKSTREAM", 2)
	}
	results, err := p.PublishBatch(t.Context(), numbered(60, 60))
	wantError(t, err, producer.ErrOutcomeUnknown)
	unknown := 0
	for _, r := range results {
		if r.Err != nil {
			wantError(t, r.Err, producer.ErrOutcomeUnknown)
			unknown++
		}
	}
	if unknown != 58 { // one confirmed per node
		t.Errorf("%d of 60 outcomes are unknown, want 58", unknown)
	}
	total := int64(0)
	for shard := range 8 {
		total += client.XLen(t.Context(), routing.StreamKey(stream, shard)).Val()
	}
	if total != 62 {
		t.Errorf("%d records are stored, want each of the 62 once", total)
	}
}

// Redirects can name a node that the cluster client has not heard of, leave the
// host out, and go in circles.
func TestRedirectsOfStubs(t *testing.T) {
	var mu sync.Mutex
	replies := make(map[string][]string) // the last one is repeated
	answer := func(name string, slots func() string) func([]string) string {
		return func(args []string) string {
			switch args[0] {
			case "cluster":
				return slots()
			case "asking":
				return "+OK\r\n"
			}
			mu.Lock()
			defer mu.Unlock()
			reply := replies[name][0]
			if len(replies[name]) > 1 {
				replies[name] = replies[name][1:]
			}
			return reply
		}
	}
	var slots string
	table := func() string { mu.Lock(); defer mu.Unlock(); return slots }
	known := redistest.NewStub(t, answer("known", table))
	stranger := redistest.NewStub(t, answer("stranger", table))
	_, knownPort, _ := net.SplitHostPort(known.Addr)
	_, strangerPort, _ := net.SplitHostPort(stranger.Addr)
	mu.Lock()
	slots = fmt.Sprintf("*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n%s:%s\r\n", redistest.Bulk("127.0.0.1"), knownPort)
	mu.Unlock()

	sends := func() int {
		n := 0
		for _, args := range append(known.Seen(), stranger.Seen()...) {
			if args[0] == "xadd" {
				n++
			}
		}
		return n
	}
	movedTo := func(addr string) string { return "-MOVED 8578 " + addr + "\r\n" }
	stored := redistest.Bulk("7-0")
	tests := []struct {
		name            string
		known, stranger []string
		want            string
		sends           int
	}{
		{"moved to a stranger", []string{movedTo("127.0.0.1:" + strangerPort)}, []string{stored}, "ok", 2},
		{"moved to a port", []string{movedTo(":" + strangerPort)}, []string{stored}, "ok", 2},
		{"ask a stranger", []string{"-ASK 8578 127.0.0.1:" + strangerPort + "\r\n"}, []string{stored}, "ok", 2},
		{"asked in vain", []string{"-ASK 8578 127.0.0.1:" + strangerPort + "\r\n", stored}, []string{movedTo("127.0.0.1:" + knownPort)}, "ok", 3},
		{"in circles", []string{movedTo("127.0.0.1:" + strangerPort)}, []string{movedTo("127.0.0.1:" + knownPort)}, "REDIS_REFUSED", 9},
		{"nobody there, at first", []string{movedTo("127.0.0.1:1"), stored}, []string{stored}, "ok", 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := open(t, newCoordinator(1), known.Addr, func(cfg *producer.Config) {
				cfg.Redis.IsClusterMode = true
				cfg.RetryFor = time.Minute
				cfg.Redis.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
					if strings.HasPrefix(addr, ":") {
						t.Errorf("connecting to %q: the host is missing", addr)
					}
					return new(net.Dialer).DialContext(ctx, network, addr)
				}
			})
			for size := 1; size <= 2; size++ {
				mu.Lock()
				replies["known"], replies["stranger"] = nil, nil
				for _, r := range tt.known {
					replies["known"] = append(replies["known"], slices.Repeat([]string{r}, size)...)
				}
				for _, r := range tt.stranger {
					replies["stranger"] = append(replies["stranger"], slices.Repeat([]string{r}, size)...)
				}
				mu.Unlock()
				before := sends()
				results, err := p.PublishBatch(t.Context(), numbered(size, size))
				if got, want := codes(results), strings.TrimSpace(strings.Repeat(tt.want+" ", size)); got != want {
					t.Errorf("got %s, want %s (%v)", got, want, err)
				}
				if n := sends() - before; n != size*tt.sends {
					t.Errorf("%d messages were sent %d times in all, want %d", size, n, size*tt.sends)
				}
			}
		})
	}
	for _, args := range stranger.Seen() {
		if args[0] == "asking" {
			return
		}
	}
	t.Error("ASKING was never sent")
}

func TestClusterThatCannotBeReached(t *testing.T) {
	p := open(t, newCoordinator(2), "127.0.0.1:1", func(cfg *producer.Config) { cfg.Redis.IsClusterMode = true })
	_, err := p.Publish(t.Context(), message("k", "x"))
	wantError(t, err, producer.ErrRedisUnavailable)
	results, _ := p.PublishBatch(t.Context(), numbered(4, 4))
	if got, want := codes(results), "REDIS_UNAVAILABLE REDIS_UNAVAILABLE REDIS_UNAVAILABLE REDIS_UNAVAILABLE"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
