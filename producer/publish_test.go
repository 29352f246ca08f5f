package producer_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/routing"
	"github.com/redis-stream-coordinator/rsc/producer"
	"github.com/redis-stream-coordinator/rsc/producer/internal/redistest"
)

// The shards are those of the contract's vectors, so that producers in other
// languages put the same key on the same shard.
func TestKeysGoWhereEveryProducerPutsThem(t *testing.T) {
	server := redistest.Start(t)
	provision(t, server.Client, 8)
	p := open(t, newCoordinator(8), server.Addr)
	for key, shard := range map[string]int{
		"a": 2, "b": 3, "hello": 7, "order-123": 5, "user:1": 7, "key with spaces": 3, "{tag}": 0,
		"trailing ": 5, "\x00": 7, "주문-1": 0, "🙂": 3, "550e8400-e29b-41d4-a716-446655440000": 4,
	} {
		receipt, err := p.Publish(t.Context(), message(key, "body of "+key))
		if err != nil {
			t.Fatal(err)
		}
		if receipt.Shard != shard || receipt.StreamKey != fmt.Sprintf("orders:%d", shard) || receipt.MetadataVersion != 108 || receipt.Repeated {
			t.Errorf("key %q: receipt %+v, want shard %d", key, receipt, shard)
		}
		records := server.Client.XRange(t.Context(), receipt.StreamKey, receipt.ID, receipt.ID).Val()
		if len(records) != 1 || !reflect.DeepEqual(records[0].Values, map[string]any{"rsc-key": key, "payload": "body of " + key}) {
			t.Errorf("key %q: stored %v", key, records)
		}
	}
}

func TestFieldsAreWrittenInOrder(t *testing.T) {
	server := redistest.Start(t)
	provision(t, server.Client, 2)
	c := newCoordinator(2)
	p := open(t, c, server.Addr)
	plain := open(t, c, server.Addr, func(cfg *producer.Config) { cfg.OmitKeyField = true })

	binary := "\x00\xff\r\n"
	fields := []producer.Field{{Name: "z", Value: "1"}, {Name: "a", Value: binary}, {Name: "z", Value: ""}}
	tests := []struct {
		name string
		p    *producer.Producer
		m    producer.Message
		want string
	}{
		{"key, payload, fields", p, producer.Message{Key: "k", Payload: []byte("p"), Fields: fields}, `["rsc-key" "k" "payload" "p" "z" "1" "a" "\x00\xff\r\n" "z" ""]`},
		{"no payload", p, producer.Message{Key: "k", Fields: fields[:1]}, `["rsc-key" "k" "z" "1"]`},
		{"empty payload", p, producer.Message{Key: "k", Payload: []byte{}}, `["rsc-key" "k" "payload" ""]`},
		{"key field switched off", plain, producer.Message{Key: "k", Payload: []byte("p")}, `["payload" "p"]`},
		{"own key field", plain, producer.Message{Key: "k", Fields: []producer.Field{{Name: "rsc-key", Value: "mine"}}}, `["rsc-key" "mine"]`},
		{"explicit shard without a key", p, producer.Message{Shard: producer.OnShard(1), Payload: []byte("p")}, `["payload" "p"]`},
		{"map", p, producer.Message{Key: "k", Fields: producer.FieldsOf(map[string]string{"c": "3", "a": "1", "b": "2"})}, `["rsc-key" "k" "a" "1" "b" "2" "c" "3"]`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			receipt, err := tt.p.Publish(t.Context(), tt.m)
			if err != nil {
				t.Fatal(err)
			}
			if tt.m.Key == "" && receipt.Shard != 1 {
				t.Errorf("shard %d was chosen, want 1", receipt.Shard)
			}
			// XRANGE by hand: the client's own form is a map and loses the order.
			reply := server.Client.Do(t.Context(), "XRANGE", receipt.StreamKey, receipt.ID, receipt.ID).Val()
			stored := reply.([]any)[0].([]any)[1] //nolint:errcheck // a panic tells enough
			if got := fmt.Sprintf("%q", stored); got != tt.want {
				t.Errorf("stored %s, want %s", got, tt.want)
			}
		})
	}
}

func TestMessagesThatCannotBeRecords(t *testing.T) {
	// Nothing is sent, so there is no server.
	p := open(t, newCoordinator(3), "127.0.0.1:1", func(cfg *producer.Config) { cfg.MaxMessageBytes = 100 })
	tests := []struct {
		name  string
		m     producer.Message
		want  *producer.PublishError
		words string
	}{
		{"no key", producer.Message{Payload: []byte("x")}, producer.ErrInvalidMessage, "Key is empty"},
		{"nothing in it", producer.Message{Key: "k"}, producer.ErrInvalidMessage, "neither Payload nor Fields"},
		{"field without a name", producer.Message{Key: "k", Fields: []producer.Field{{Value: "x"}}}, producer.ErrInvalidMessage, "Fields[0] has no name"},
		{"reserved name", producer.Message{Key: "k", Fields: []producer.Field{{Name: "a"}, {Name: "rsc-key"}}}, producer.ErrInvalidMessage, "Fields[1]"},
		{"payload twice", producer.Message{Key: "k", Payload: []byte("x"), Fields: []producer.Field{{Name: "payload"}}}, producer.ErrInvalidMessage, "payload"},
		{"too many fields", producer.Message{Key: "k", Fields: make([]producer.Field, producer.MaxFields+1)}, producer.ErrInvalidMessage, "1001 fields"},
		{"too large", message("k", strings.Repeat("x", 86)), producer.ErrMessageTooLarge, "101 bytes"},
		{"shard too high", producer.Message{Shard: producer.OnShard(3), Payload: []byte("x")}, producer.ErrNoSuchShard, "shard 3"},
		{"shard below zero", producer.Message{Shard: producer.OnShard(-1), Payload: []byte("x")}, producer.ErrNoSuchShard, "shard -1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := p.Publish(t.Context(), tt.m)
			wantError(t, err, tt.want, tt.words)
			if got := details(t, err); got.Retryable {
				t.Error("is called retryable")
			}
		})
	}
}

func TestLargestMessageIsStored(t *testing.T) {
	server := redistest.Start(t)
	provision(t, server.Client, 1)
	p := open(t, newCoordinator(1), server.Addr, func(cfg *producer.Config) { cfg.PipelineBytes = 1000 })
	body := strings.Repeat("x", producer.DefaultMaxMessageBytes-len("rsc-key")-len("payload")-1)
	if _, err := p.Publish(t.Context(), message("k", body)); err != nil {
		t.Fatal(err)
	}
	// In a batch a message above PipelineBytes travels alone.
	results, err := p.PublishBatch(t.Context(), []producer.Message{message("k", "a"), message("k", body), message("k", "b")})
	if err != nil || codes(results) != "ok ok ok" {
		t.Fatalf("%s, %v", codes(results), err)
	}
	if n := server.Client.XLen(t.Context(), "orders:0").Val(); n != 4 {
		t.Errorf("%d records are stored, want 4", n)
	}
}

func TestNoShards(t *testing.T) {
	c := newCoordinator(0)
	p := open(t, c, "127.0.0.1:1")
	_, err := p.Publish(t.Context(), message("k", "x"))
	wantError(t, err, producer.ErrNoShards, "scale it up")
}

func TestBatchKeepsOrderPerKey(t *testing.T) {
	server := redistest.Start(t)
	provision(t, server.Client, 8)
	p := open(t, newCoordinator(8), server.Addr, func(cfg *producer.Config) { cfg.PipelineMessages = 64 })
	const n, keys = 2000, 50
	results, err := p.PublishBatch(t.Context(), numbered(n, keys))
	if err != nil {
		t.Fatal(err)
	}
	if len(results) != n {
		t.Fatalf("%d results, want %d", len(results), n)
	}
	next := make(map[string]int)
	stored := 0
	for shard := range 8 {
		for _, r := range server.Client.XRange(t.Context(), routing.StreamKey(stream, shard), "-", "+").Val() {
			stored++
			key := fmt.Sprint(r.Values["rsc-key"])
			i, err := strconv.Atoi(fmt.Sprint(r.Values["payload"]))
			if err != nil {
				t.Fatal(err)
			}
			if want := next[key]*keys + i%keys; i != want {
				t.Fatalf("key %s: message %d is stored where %d belongs", key, i, want)
			}
			next[key]++
			if got := results[i].Receipt; got.ID != r.ID || got.Shard != shard {
				t.Fatalf("message %d: receipt %+v, stored as %s in shard %d", i, got, r.ID, shard)
			}
		}
	}
	if stored != n {
		t.Errorf("%d records are stored, want %d", stored, n)
	}
}

func TestBatchLimits(t *testing.T) {
	p := open(t, newCoordinator(1), "127.0.0.1:1")
	results, err := p.PublishBatch(t.Context(), make([]producer.Message, producer.MaxBatchMessages+1))
	if results != nil {
		t.Error("there are results")
	}
	wantError(t, err, producer.ErrBatchTooLarge, "100001")
	if results, err = p.PublishBatch(t.Context(), nil); err != nil || len(results) != 0 {
		t.Errorf("an empty batch gives %v, %v", results, err)
	}
}

// A message that cannot be stored holds back those behind it with the same key,
// and nobody else.
func TestBatchStopsAKeyAtItsFirstFailure(t *testing.T) {
	server := redistest.Start(t)
	provision(t, server.Client, 4)
	p := open(t, newCoordinator(4), server.Addr, func(cfg *producer.Config) { cfg.MaxMessageBytes = 100 })
	big := strings.Repeat("x", 200)
	results, err := p.PublishBatch(t.Context(), []producer.Message{
		message("a", "1"), message("b", "1"), message("a", big), message("b", "2"), message("a", "3"), message("c", "1"),
	})
	if got, want := codes(results), "ok ok MESSAGE_TOO_LARGE ok EARLIER_FAILED ok"; got != want {
		t.Fatalf("got %s, want %s", got, want)
	}
	var sum *producer.BatchError
	if !errors.As(err, &sum) || sum.Messages != 6 || sum.NotApplied != 2 || sum.Unknown != 0 || sum.FirstIndex != 2 {
		t.Fatalf("summed up as %+v", err)
	}
	wantError(t, err, producer.ErrMessageTooLarge, "2 of 6 messages failed, first message 2")
	if errors.Is(err, producer.ErrOutcomeUnknown) {
		t.Error("the outcome is said to be unknown")
	}
	// The cause travels along.
	wantError(t, results[4].Err, producer.ErrEarlierFailed)
	if !errors.Is(results[4].Err, producer.ErrMessageTooLarge) {
		t.Errorf("%v does not say what failed earlier", results[4].Err)
	}
}

func TestManyGoroutines(t *testing.T) {
	server := redistest.Start(t)
	provision(t, server.Client, 4)
	p := open(t, newCoordinator(4), server.Addr)
	const goroutines, each = 16, 50
	var running sync.WaitGroup
	for g := range goroutines {
		running.Go(func() {
			for i := range each {
				if _, err := p.Publish(t.Context(), message("g"+strconv.Itoa(g), strconv.Itoa(i))); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	running.Wait()
	next, total := make(map[string]int), 0
	for shard := range 4 {
		for _, r := range server.Client.XRange(t.Context(), routing.StreamKey(stream, shard), "-", "+").Val() {
			key := fmt.Sprint(r.Values["rsc-key"])
			if got := fmt.Sprint(r.Values["payload"]); got != strconv.Itoa(next[key]) {
				t.Fatalf("key %s: %s is stored where %d belongs", key, got, next[key])
			}
			next[key]++
			total++
		}
	}
	if total != goroutines*each {
		t.Errorf("%d records are stored, want %d", total, goroutines*each)
	}
}

func TestContextThatHasEnded(t *testing.T) {
	server := redistest.Start(t)
	provision(t, server.Client, 1)
	p := open(t, newCoordinator(1), server.Addr)
	eventually(t, "the routing", func() bool { _, ok := p.Routing(); return ok })
	reason := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(reason)
	_, err := p.Publish(ctx, message("k", "x"))
	wantError(t, err, producer.ErrCanceled)
	if !errors.Is(err, reason) {
		t.Errorf("%v does not tell the cause", err)
	}
	results, err := p.PublishBatch(ctx, numbered(3, 1))
	wantError(t, err, producer.ErrCanceled)
	// Each fails by itself: none of them was sent.
	if got, want := codes(results), "CANCELED CANCELED CANCELED"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if n := server.Client.XLen(t.Context(), "orders:0").Val(); n != 0 {
		t.Errorf("%d records are stored", n)
	}
}

func TestRoutingForDisplay(t *testing.T) {
	c := newCoordinator(2)
	c.set(func(c *coordinator) { c.err = errAway })
	p := open(t, c, "127.0.0.1:1")
	eventually(t, "the first failure", func() bool { r, _ := p.Routing(); return r.RefreshError != nil })
	if r, ok := p.Routing(); ok || !errors.Is(r.RefreshError, errAway) || r.Stream != stream {
		t.Fatalf("before the first answer: %+v, %t", r, ok)
	}
	c.set(func(c *coordinator) { c.err = nil })
	// It is there a moment before the error of the attempt before it is gone.
	eventually(t, "the routing", func() bool { r, ok := p.Routing(); return ok && r.RefreshError == nil })
	r, _ := p.Routing()
	want := []producer.Shard{{Index: 0, Key: "orders:0", Slot: 8578}, {Index: 1, Key: "orders:1", Slot: 12707}}
	if !reflect.DeepEqual(r.Shards, want) || r.MetadataVersion != 102 || r.Group != stream {
		t.Errorf("routing %+v", r)
	}
	if lease := r.ExpiresAt.Sub(r.RequestedAt); lease != 30*time.Second {
		t.Errorf("the lease is %s", lease)
	}
}
