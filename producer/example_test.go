package producer_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
	"github.com/redis-stream-coordinator/rsc/producer"
)

// The smallest whole use: open, publish, close.
func Example() {
	p, err := producer.New(producer.Config{
		Coordinators: []string{"http://127.0.0.1:8080"},
		Credentials:  producer.BasicAuth("admin", "password"),
		Stream:       "orders",
		Redis:        redis.UniversalOptions{Addrs: []string{"127.0.0.1:6379"}},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = p.Close(context.Background()) }()

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	receipt, err := p.Publish(ctx, producer.Message{Key: "customer-7", Payload: []byte(`{"order":1}`)})
	if err != nil {
		log.Print(err)
		return
	}
	fmt.Println("stored as", receipt.ID, "in", receipt.StreamKey)
}

// An error says whether the record may be stored all the same.
func ExampleProducer_Publish() {
	var p *producer.Producer // from producer.New

	_, err := p.Publish(context.Background(), producer.Message{Key: "customer-7", Payload: []byte("body")})
	var failed *producer.PublishError
	switch {
	case err == nil:
		// Stored.
	case errors.Is(err, producer.ErrOutcomeUnknown):
		// Perhaps stored. Publishing again may store it twice: do so if consumers
		// can tell, else look into the stream first.
	case errors.Is(err, producer.ErrRoutingExpired):
		// No coordinator for a while. Not stored; publishing resumes by itself.
	case errors.As(err, &failed) && failed.Retryable:
		// Certainly not stored, and worth another try later.
	default:
		// Certainly not stored, and it never will be as it is.
	}
}

// The outcome of each message of a batch stands at its place in the results.
func ExampleProducer_PublishBatch() {
	var p *producer.Producer // from producer.New

	messages := []producer.Message{
		{Key: "customer-7", Payload: []byte("first")},
		{Key: "customer-7", Payload: []byte("second")}, // stored behind the first
		{Key: "customer-8", Fields: []producer.Field{{Name: "type", Value: "refund"}, {Name: "cents", Value: "1250"}}},
	}
	results, err := p.PublishBatch(context.Background(), messages)
	if err == nil {
		return // all are stored
	}
	var again []producer.Message
	for i, r := range results {
		var failed *producer.PublishError
		if errors.As(r.Err, &failed) && failed.Outcome == producer.NotApplied && failed.Retryable {
			again = append(again, messages[i])
		}
	}
	log.Printf("%v; %d can be published again", err, len(again))
}

// Send returns before the message is stored. Its future tells the outcome, and
// the messages of a key keep their order.
func ExampleProducer_Send() {
	var p *producer.Producer // from producer.New
	ctx := context.Background()

	var futures []*producer.Future
	for _, body := range []string{"first", "second", "third"} {
		// Waits only when the buffer is full.
		f, err := p.Send(ctx, producer.Message{Key: "customer-7", Payload: []byte(body)})
		if err != nil {
			log.Print(err) // not taken
			break
		}
		futures = append(futures, f)
	}
	for _, f := range futures {
		receipt, err := f.Wait(ctx)
		switch {
		case errors.Is(err, producer.ErrOutcomeUnknown):
			// Perhaps stored; those behind it with the same key were not sent.
		case err != nil:
			// Not stored.
		default:
			fmt.Println("stored as", receipt.ID)
		}
	}
}

// A function that is called with each outcome, and a flush at the end.
func ExampleProducer_SendFunc() {
	var p *producer.Producer // from producer.New
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()

	var failed atomic.Int64
	for i := range 100_000 {
		m := producer.Message{Key: fmt.Sprintf("customer-%d", i%1000), Payload: []byte("body")}
		if err := p.SendFunc(ctx, m, func(r producer.Result) {
			if r.Err != nil {
				failed.Add(1)
			}
		}); err != nil {
			log.Print(err)
			return
		}
	}
	if err := p.Flush(ctx); err != nil {
		log.Print(err)
	}
	log.Printf("%d failed", failed.Load())
}

// Shards of at most a million records: what comes when one is full is refused.
func ExampleConfig_maxStreamLength() {
	cfg := producer.Config{
		Coordinators:    []string{"http://127.0.0.1:8080"},
		Credentials:     producer.BasicAuth("admin", "password"),
		Stream:          "orders",
		Redis:           redis.UniversalOptions{Addrs: []string{"127.0.0.1:6379"}},
		MaxStreamLength: 1_000_000,
		WhenFull:        producer.RefuseWhenFull, // DropWhenFull removes the oldest records
	}
	p, err := producer.New(cfg)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = p.Close(context.Background()) }()

	_, err = p.Publish(context.Background(), producer.Message{Key: "customer-7", Payload: []byte("body")})
	if errors.Is(err, producer.ErrStreamFull) {
		// Consumers are behind. Certainly not stored: slow down, or try later.
		log.Print(err)
	}
	for shard, drops := range p.Stats().Dropped { // with one of the policies that drop
		log.Printf("shard %d: %d dropped, %d of them unread", shard, drops.Records, drops.Unread)
	}
}

// An observer of one's own measures what it wants.
func ExampleObserver() {
	cfg := producer.Config{Observer: &latencies{}}
	_ = cfg
}

type latencies struct {
	producer.NopObserver
	slowest atomic.Int64
}

func (l *latencies) Published(e producer.PublishedEvent) {
	if ns := e.Latency.Nanoseconds(); ns > l.slowest.Load() {
		l.slowest.Store(ns)
	}
}

// A Redis Cluster, and a token that renews itself.
func ExampleConfig() {
	token := func(context.Context) (string, error) { return "Bearer …", nil }

	cfg := producer.Config{
		Coordinators: []string{"https://coordinator-a:8080", "https://coordinator-b:8080"},
		Credentials:  producer.CredentialsFunc(token),
		Stream:       "orders",
		Redis: redis.UniversalOptions{
			Addrs:    []string{"redis-1:6379", "redis-2:6379", "redis-3:6379"},
			PoolSize: 32,
		},
	}
	p, err := producer.New(cfg)
	if err != nil {
		log.Fatal(err)
	}
	_ = p.Close(context.Background())
}

// In a test, a few lines stand in for the coordinator.
func ExampleTransport() {
	var fixed producer.Transport = fixedRouting{}
	routing, _ := fixed.Routing(context.Background())
	fmt.Println(routing.ShardCount, routing.Shards[0].StreamKey)
	// Output: 1 orders:0
}

type fixedRouting struct{}

func (fixedRouting) Routing(context.Context) (*protocol.Routing, error) {
	return &protocol.Routing{
		StreamPrefix: "orders", ConsumerGroup: "orders", ShardCount: 1,
		Shards:         []protocol.RouteShard{{ShardIndex: 0, StreamKey: "orders:0"}},
		RoutingLeaseMs: 30_000,
	}, nil
}

func ExampleFieldsOf() {
	for _, f := range producer.FieldsOf(map[string]string{"type": "refund", "cents": "1250"}) {
		fmt.Println(f.Name, f.Value)
	}
	// Output:
	// cents 1250
	// type refund
}

// A message for a certain shard, such as a marker that every shard gets.
func ExampleOnShard() {
	var p *producer.Producer // from producer.New

	routing, _ := p.Routing()
	var markers []producer.Message
	for _, shard := range routing.Shards {
		markers = append(markers, producer.Message{Shard: producer.OnShard(shard.Index), Payload: []byte("end of day")})
	}
	_, _ = p.PublishBatch(context.Background(), markers)
}
