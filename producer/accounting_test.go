package producer_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redis-stream-coordinator/rsc/core/routing"
	"github.com/redis-stream-coordinator/rsc/producer"
	"github.com/redis-stream-coordinator/rsc/producer/internal/redistest"
)

// load publishes by every API at the same time, each with keys of its own, and
// keeps what was said about each message.
type load struct {
	p    *producer.Producer
	stop chan struct{}
	// ending guards stop.
	ending    sync.Once
	work      sync.WaitGroup
	confirmed atomic.Int64

	mu     sync.Mutex
	safe   map[string]bool   // payloads that must be there whatever happened since
	said   map[string]string // payload → "ok" or the code of the error
	unsure map[string]bool
}

const (
	loadBatch = 20
	loadKeys  = 12 // of each API
)

// startLoad starts a load that ends with the test at the latest.
func startLoad(t *testing.T, p *producer.Producer) *load {
	t.Helper()
	l := &load{p: p, stop: make(chan struct{}), said: make(map[string]string), unsure: make(map[string]bool)}
	for k := range loadKeys {
		l.work.Go(func() { l.single("single-" + strconv.Itoa(k)) })
	}
	for b := range 2 {
		l.work.Go(func() { l.batches(b) })
	}
	l.work.Go(l.async)
	t.Cleanup(l.end)
	return l
}

func (l *load) stopped() bool {
	select {
	case <-l.stop:
		return true
	default:
		return false
	}
}

// say keeps the outcome of the message with this payload.
func (l *load) say(body string, err error) {
	var e *producer.PublishError
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err == nil:
		l.said[body] = "ok"
		l.confirmed.Add(1)
	case errors.As(err, &e):
		l.said[body] = e.Code
		l.unsure[body] = e.Outcome == producer.Unknown
	default:
		l.said[body] = "no outcome: " + err.Error()
	}
}

func (l *load) single(key string) {
	for i := 0; !l.stopped(); i++ {
		body := key + "/" + strconv.Itoa(i)
		_, err := l.p.Publish(context.Background(), message(key, body))
		l.say(body, err)
	}
}

func (l *load) batches(b int) {
	for i := 0; !l.stopped(); i += loadBatch {
		messages := make([]producer.Message, loadBatch)
		for j := range messages {
			key := fmt.Sprintf("batch-%d-%d", b, j%(loadKeys/2))
			messages[j] = message(key, key+"/"+strconv.Itoa(i+j))
		}
		results, _ := l.p.PublishBatch(context.Background(), messages)
		for j, r := range results {
			l.say(string(messages[j].Payload), r.Err)
		}
	}
}

func (l *load) async() {
	for i := 0; !l.stopped(); i++ {
		key := "async-" + strconv.Itoa(i%loadKeys)
		body := key + "/" + strconv.Itoa(i)
		err := l.p.SendFunc(context.Background(), message(key, body), func(r producer.Result) { l.say(body, r.Err) })
		if err != nil {
			l.say(body, err)
		}
		if i%50 == 49 {
			time.Sleep(time.Millisecond) // or it would be all there is
		}
	}
	_ = l.p.Flush(context.Background())
}

// end stops the load and waits for every outcome. It may be called twice.
func (l *load) end() {
	l.ending.Do(func() { close(l.stop) })
	l.work.Wait()
}

// keep has check miss what is confirmed by now.
func (l *load) keep() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.safe = make(map[string]bool)
	for body, code := range l.said {
		l.safe[body] = code == "ok"
	}
}

// tally is what became of the messages.
type tally struct {
	ok, unknown, unknownStored, notApplied int
	// gone were confirmed and are not there.
	gone int
}

// check compares what was said with what is stored: confirmed messages are there
// once, those that were not applied are not, unknown ones once at most; and each
// key is in order.
func (l *load) check(t *testing.T, client redis.UniversalClient, shards int) tally {
	t.Helper()
	copies, last := make(map[string]int), make(map[string]int)
	for shard := range shards {
		var records []redis.XMessage
		eventually(t, "a shard to be read", func() (read bool) {
			var err error
			records, err = client.XRange(t.Context(), routing.StreamKey(stream, shard), "-", "+").Result()
			return err == nil
		})
		for _, r := range records {
			body, key := fmt.Sprint(r.Values["payload"]), fmt.Sprint(r.Values["rsc-key"])
			if copies[body]++; copies[body] > 1 {
				t.Errorf("%s is stored twice", body)
			}
			_, number, _ := strings.Cut(body, "/")
			i, err := strconv.Atoi(number)
			if err != nil {
				t.Fatal(err)
			}
			if previous, ok := last[key]; ok && i < previous {
				t.Errorf("key %s: message %d is stored behind %d", key, i, previous)
			}
			last[key] = i
		}
	}
	var sum tally
	apis := make(map[string]int)
	for body, code := range l.said {
		switch {
		case code == "ok":
			sum.ok++
			if copies[body] == 0 {
				sum.gone++
				if l.safe[body] {
					t.Errorf("%s is gone, though it was safe", body)
				}
			}
		case l.unsure[body]:
			sum.unknown++
			sum.unknownStored += copies[body]
		default:
			sum.notApplied++
			if copies[body] != 0 {
				t.Errorf("%s is stored, and the producer said %s", body, code)
			}
		}
		api, _, _ := strings.Cut(body, "-")
		apis[api+" "+code]++
		delete(copies, body)
	}
	for body := range copies {
		t.Errorf("%s is stored, and nobody was told anything about it", body)
	}
	t.Logf("%+v, %v", sum, apis)
	return sum
}

// One reply in a hundred is lost: each message in doubt is reported as such,
// nothing is stored twice, and order per key is kept.
func TestReplyLossIsAccountedFor(t *testing.T) {
	server := redistest.Start(t)
	provision(t, server.Client, 4)
	proxy := redistest.NewProxy(t, server.Addr)
	// A pipeline is as small as what the client writes at once, or the proxy might cut it.
	p := open(t, newCoordinator(4), proxy.Addr, func(cfg *producer.Config) { cfg.RetryFor, cfg.PipelineMessages = time.Minute, 100 })
	proxy.LoseEvery("NOMKSTREAM", 100, 0)
	l := startLoad(t, p)
	eventually(t, "some losses", func() bool { return proxy.Hits() >= 30 })
	l.end()
	proxy.Relent()
	sum := l.check(t, server.Client, 4)
	// This proxy loses a reply after the server has executed everything.
	if sum.gone != 0 || sum.unknown < 30 || sum.unknownStored != sum.unknown {
		t.Errorf("%+v", sum)
	}
	for body, code := range l.said {
		switch code {
		case "ok", "OUTCOME_UNKNOWN", "EARLIER_FAILED":
		default:
			t.Errorf("%s: %s", body, code)
		}
	}
}

// A master is killed under load and its replica takes over. Redis replicates
// behind its answers, so what it had confirmed in its last moment may go with it;
// everything else is accounted for, and order is kept.
func TestFailoverOfAMasterUnderLoad(t *testing.T) {
	t.Parallel() // a failover is waiting
	servers := redistest.StartCluster(t, 3)
	replica := redistest.AddReplica(t, servers, servers[0])
	client := clusterClient(t, servers)
	const shards = 12
	provision(t, client, shards)
	p := openCluster(t, newCoordinator(shards), servers, func(cfg *producer.Config) { cfg.RetryFor = redistest.Patience })
	l := startLoad(t, p)
	eventually(t, "some load", func() bool { return l.confirmed.Load() > 2000 })
	l.keep()
	servers[0].Copied(replica)
	killed := time.Now()
	servers[0].Kill()
	redistest.FailOverFast(t, servers[1], servers[2], replica)
	eventually(t, "the replica to take over", replica.IsMaster)
	takeover := time.Since(killed)
	for shard := range shards {
		key := routing.StreamKey(stream, shard)
		if routing.Slot(key) >= 16384/3 {
			continue
		}
		body := fmt.Sprintf("single-probe-%d/0", shard)
		_, err := p.Publish(t.Context(), producer.Message{Key: "single-probe-" + strconv.Itoa(shard), Shard: producer.OnShard(shard), Payload: []byte(body)})
		l.say(body, err)
	}
	gap := time.Since(killed)
	before := l.confirmed.Load()
	eventually(t, "some more load", func() bool { return l.confirmed.Load() > before+2000 })
	l.end()
	client.ReloadState(t.Context())
	eventually(t, "the test's own client to see the new master", func() bool {
		for shard := range shards {
			if client.XLen(t.Context(), routing.StreamKey(stream, shard)).Err() != nil {
				return false
			}
		}
		return true
	})
	l.check(t, client, shards)
	t.Logf("taken over after %s, used after %s", takeover, gap)
	if gap > takeover+20*time.Second {
		t.Error("it took the producer too long to find the new master")
	}
	for body, code := range l.said {
		switch code {
		case "ok", "OUTCOME_UNKNOWN", "EARLIER_FAILED":
		default:
			t.Errorf("%s: %s", body, code)
		}
	}
}

// Every slot that holds a shard moves to the other node and back under load:
// nothing is lost, doubtful, stored twice or out of order.
func TestSlotsThatMoveUnderLoad(t *testing.T) {
	t.Parallel() // starting a cluster is waiting
	servers := redistest.StartCluster(t, 2)
	client := clusterClient(t, servers)
	const shards = 6
	provision(t, client, shards)
	p := openCluster(t, newCoordinator(shards), servers, func(cfg *producer.Config) { cfg.RetryFor = time.Minute })
	l := startLoad(t, p)
	eventually(t, "some load", func() bool { return l.confirmed.Load() > 1000 })
	for range 2 {
		for shard := range shards {
			slot := routing.Slot(routing.StreamKey(stream, shard))
			from, to := servers[0], servers[1]
			if from.Client.ClusterCountKeysInSlot(t.Context(), slot).Val() == 0 {
				from, to = to, from
			}
			redistest.MoveSlot(t, slot, from, to, true)
			half := l.confirmed.Load()
			eventually(t, "load half way", func() bool { return l.confirmed.Load() > half+300 })
			redistest.FinishMove(t, slot, from, to)
		}
	}
	l.end()
	client.ReloadState(t.Context())
	eventually(t, "the test's own client to see the moves", func() bool {
		for shard := range shards {
			if client.XLen(t.Context(), routing.StreamKey(stream, shard)).Err() != nil {
				return false
			}
		}
		return true
	})
	sum := l.check(t, client, shards)
	if sum.gone+sum.unknown+sum.notApplied != 0 {
		t.Errorf("%+v", sum)
	}
	if s := p.Stats(); s.Redirects == 0 {
		t.Error("nothing was redirected, so nothing was tested")
	}
}
