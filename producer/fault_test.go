package producer_test

import (
	"context"
	"errors"
	"net"
	"reflect"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis-stream-coordinator/rsc/producer"
	"github.com/redis-stream-coordinator/rsc/producer/internal/redistest"
)

// The reply to an XADD is lost: the outcome is unknown, and nothing sends the
// record a second time.
func TestLostReply(t *testing.T) {
	server := redistest.Start(t)
	provision(t, server.Client, 1)
	proxy := redistest.NewProxy(t, server.Addr)
	// Even with time to spare for retries.
	p := open(t, newCoordinator(1), proxy.Addr, func(cfg *producer.Config) { cfg.RetryFor = time.Minute })
	if _, err := p.Publish(t.Context(), message("k", "1")); err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		proxy.LoseReply("NOMKSTREAM", 0)
		_, err := p.Publish(t.Context(), message("k", "lost"))
		wantError(t, err, producer.ErrOutcomeUnknown, "may or may not be stored")
		if got := details(t, err); !got.Retryable || got.StreamKey != "orders:0" {
			t.Errorf("%+v", got)
		}
		if n := server.Client.XLen(t.Context(), "orders:0").Val(); n != int64(i+2) {
			t.Fatalf("%d records are stored after %d publishes", n, i+2)
		}
	}
	if proxy.Hits() != 10 {
		t.Errorf("%d replies were lost, want 10", proxy.Hits())
	}
	if _, err := p.Publish(t.Context(), message("k", "2")); err != nil {
		t.Fatalf("after the loss: %v", err)
	}
}

func TestLostReplyInABatch(t *testing.T) {
	server := redistest.Start(t)
	provision(t, server.Client, 1)
	proxy := redistest.NewProxy(t, server.Addr)
	p := open(t, newCoordinator(1), proxy.Addr, func(cfg *producer.Config) { cfg.PipelineMessages = 4 })
	eventually(t, "the routing", func() bool { _, ok := p.Routing(); return ok })

	// Of the first four, two are confirmed. k0 and k1 are in doubt from then on.
	proxy.LoseReply("NOMKSTREAM", 4)
	results, err := p.PublishBatch(t.Context(), numbered(8, 2))
	if got, want := codes(results), "ok ok OUTCOME_UNKNOWN OUTCOME_UNKNOWN EARLIER_FAILED EARLIER_FAILED EARLIER_FAILED EARLIER_FAILED"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	wantError(t, err, producer.ErrOutcomeUnknown, "6 of 8 messages failed (2 with unknown outcome)")
	if got, want := payloads(t, server.Client, 0), []string{"0", "1", "2", "3"}; !reflect.DeepEqual(got, want) {
		t.Errorf("stored %v, want %v", got, want)
	}
}

// What other keys have behind a lost reply is sent when the connection is back,
// as long as there is time.
func TestOtherKeysGoOnAfterALostReply(t *testing.T) {
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr)
	for name, tt := range map[string]struct {
		retryFor time.Duration
		want     string
		stored   []string
	}{
		"with time":    {time.Minute, "OUTCOME_UNKNOWN OUTCOME_UNKNOWN ok ok", []string{"0", "1", "2", "3"}},
		"without time": {-1, "OUTCOME_UNKNOWN OUTCOME_UNKNOWN REDIS_UNAVAILABLE REDIS_UNAVAILABLE", []string{"0", "1"}},
	} {
		t.Run(name, func(t *testing.T) {
			server.Client.FlushAll(t.Context())
			provision(t, server.Client, 1)
			p := open(t, newCoordinator(1), proxy.Addr, func(cfg *producer.Config) {
				cfg.PipelineMessages, cfg.RetryFor = 2, tt.retryFor
			})
			eventually(t, "the routing", func() bool { _, ok := p.Routing(); return ok })
			proxy.LoseReply("NOMKSTREAM", 0)
			results, _ := p.PublishBatch(t.Context(), numbered(4, 4))
			if got := codes(results); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
			if got := payloads(t, server.Client, 0); !reflect.DeepEqual(got, tt.stored) {
				t.Errorf("stored %v, want %v", got, tt.stored)
			}
		})
	}
}

func TestRetryUncertain(t *testing.T) {
	server := redistest.Start(t)
	provision(t, server.Client, 1)
	proxy := redistest.NewProxy(t, server.Addr)
	p := open(t, newCoordinator(1), proxy.Addr, func(cfg *producer.Config) {
		cfg.RetryUncertain, cfg.RetryFor, cfg.PipelineMessages = true, time.Minute, 3
	})
	eventually(t, "the routing", func() bool { _, ok := p.Routing(); return ok })
	proxy.LoseReply("NOMKSTREAM", 0)
	receipt, err := p.Publish(t.Context(), message("k", "x"))
	if err != nil || !receipt.Repeated {
		t.Fatalf("receipt %+v, %v", receipt, err)
	}
	if n := server.Client.XLen(t.Context(), "orders:0").Val(); n != 2 {
		t.Errorf("%d records are stored, want both copies", n)
	}
	server.Client.XTrimMaxLen(t.Context(), "orders:0", 0)

	proxy.LoseReply("NOMKSTREAM", 2)
	results, err := p.PublishBatch(t.Context(), numbered(5, 1))
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range results {
		if want := i == 1 || i == 2; r.Receipt.Repeated != want {
			t.Errorf("message %d: repeated is %t", i, r.Receipt.Repeated)
		}
	}
	if got, want := payloads(t, server.Client, 0), []string{"0", "1", "2", "1", "2", "3", "4"}; !reflect.DeepEqual(got, want) {
		t.Errorf("stored %v, want %v", got, want)
	}
}

// Once an attempt is in doubt, a later one that certainly failed does not make
// the whole certain.
func TestDoubtStays(t *testing.T) {
	var calls atomic.Int32
	stub := redistest.NewStub(t, func([]string) string {
		if calls.Add(1) == 1 {
			return "" // the connection breaks
		}
		return "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"
	})
	p := open(t, newCoordinator(1), stub.Addr, func(cfg *producer.Config) {
		cfg.RetryUncertain, cfg.RetryFor = true, time.Minute
	})
	_, err := p.Publish(t.Context(), message("k", "x"))
	wantError(t, err, producer.ErrOutcomeUnknown, "WRONGTYPE")
	if calls.Load() != 2 {
		t.Errorf("the message was sent %d times", calls.Load())
	}
}

// A frozen server takes the request and answers nothing. When it goes on it
// executes what it was sent: once.
func TestFrozenServer(t *testing.T) {
	server := redistest.Start(t)
	provision(t, server.Client, 1)
	p := open(t, newCoordinator(1), server.Addr, func(cfg *producer.Config) {
		cfg.Redis.ReadTimeout = 150 * time.Millisecond
		cfg.PipelineMessages = 5
	})
	// freeze stops the server when there is a connection that serves. A slow machine is
	// one that answers too late as well, so that may take more than one attempt.
	freeze := func(publish func() error) {
		t.Helper()
		eventually(t, "a connection", func() bool { return publish() == nil })
		server.Freeze()
	}
	stored := func() (out []string) {
		for _, body := range payloads(t, server.Client, 0) {
			if body != "warm" {
				out = append(out, body)
			}
		}
		return out
	}
	freeze(func() error { _, err := p.Publish(t.Context(), message("a", "warm")); return err })
	_, err := p.Publish(t.Context(), message("b", "frozen"))
	server.Thaw()
	wantError(t, err, producer.ErrOutcomeUnknown)
	eventually(t, "the frozen record", func() bool { return len(stored()) == 1 })

	freeze(func() error {
		_, err := p.PublishBatch(t.Context(), []producer.Message{message("a", "warm"), message("a", "warm")})
		return err
	})
	results, err := p.PublishBatch(t.Context(), numbered(10, 1))
	server.Thaw()
	unknown := strings.TrimSpace(strings.Repeat("OUTCOME_UNKNOWN ", 5))
	if got, want := codes(results), unknown+strings.Repeat(" EARLIER_FAILED", 5); got != want {
		t.Errorf("got %s, want %s (%v)", got, want, err)
	}
	eventually(t, "the frozen batch", func() bool { return len(stored()) >= 6 })
	eventually(t, "the server to serve", func() bool { _, err := p.Publish(t.Context(), message("a", "warm")); return err == nil })
	if got, want := stored(), []string{"frozen", "0", "1", "2", "3", "4"}; !reflect.DeepEqual(got, want) {
		t.Errorf("stored %v, want %v", got, want)
	}
}

// The caller's deadline counts while an answer is awaited, not only the
// client's own timeout.
func TestDeadlineWhileWaitingForTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		never := make(chan struct{})
		defer close(never)
		stub := redistest.NewPipeStub(t, func([]string) string {
			<-never
			return ""
		})
		p := open(t, newCoordinator(1), stub.Addr, piped(stub))
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		began := time.Now()
		_, err := p.Publish(ctx, message("k", "x"))
		wantError(t, err, producer.ErrOutcomeUnknown)
		if d := time.Since(began); d != 200*time.Millisecond {
			t.Errorf("the deadline of 200ms took %s", d)
		}
	})
}

func TestRedisAway(t *testing.T) {
	server := redistest.Start(t)
	c := newCoordinator(1)
	p := open(t, c, server.Addr)
	patient := open(t, c, server.Addr, func(cfg *producer.Config) { cfg.RetryFor = time.Minute })
	provision(t, server.Client, 1)
	if _, err := p.Publish(t.Context(), message("k", "1")); err != nil {
		t.Fatal(err)
	}
	server.Kill()
	eventually(t, "the loss to be certain", func() bool {
		// The first attempt may still write to a connection whose end has not been noticed.
		_, err := p.Publish(t.Context(), message("k", "2"))
		return strings.Contains(err.Error(), "REDIS_UNAVAILABLE")
	})
	_, err := p.Publish(t.Context(), message("k", "2"))
	wantError(t, err, producer.ErrRedisUnavailable, "orders:0", "refused")
	if got := details(t, err); !got.Retryable {
		t.Error("is not called retryable")
	}
	results, _ := p.PublishBatch(t.Context(), numbered(1200, 1200))
	if got, want := codes(results), strings.TrimSpace(strings.Repeat("REDIS_UNAVAILABLE ", 1200)); got != want {
		t.Errorf("got %s", got)
	}

	done := make(chan error, 1)
	go func() {
		_, err := patient.Publish(t.Context(), message("k", "3"))
		done <- err
	}()
	// It comes back empty; whether the message finds the shard missing or not
	// depends on the moment, but Redis was there.
	server.Restart()
	provision(t, server.Client, 1)
	if err := <-done; err != nil {
		wantError(t, err, producer.ErrShardMissing)
	}
	if _, err := p.Publish(t.Context(), message("k", "4")); err != nil {
		t.Errorf("after the restart: %v", err)
	}
}

// What a server refuses is certainly not stored.
func TestRefusalsOfARealServer(t *testing.T) {
	server := redistest.Start(t)
	c := newCoordinator(1)
	admin := server.Client
	tests := []struct {
		name      string
		user      string
		provoke   func(ctx context.Context)
		words     string
		retryable bool
	}{
		{"out of memory", "", func(ctx context.Context) { admin.ConfigSet(ctx, "maxmemory", "1") }, "OOM", true},
		{"read-only replica", "", func(ctx context.Context) { admin.Do(ctx, "REPLICAOF", "127.0.0.1", "1") }, "READONLY", true},
		{"not enough replicas", "", func(ctx context.Context) { admin.ConfigSet(ctx, "min-replicas-to-write", "1") }, "NOREPLICAS", true},
		{"key of another type", "", func(ctx context.Context) {
			admin.Del(ctx, "orders:0")
			admin.Set(ctx, "orders:0", "x", 0)
		}, "WRONGTYPE", false},
		{"command not allowed", "reader", func(ctx context.Context) {
			admin.Do(ctx, "ACL", "SETUSER", "reader", "on", ">pw", "~*", "+@read", "+@connection")
		}, "ACL SETUSER", false},
		{"wrong password", "nobody", func(context.Context) {}, "check Redis.Username and Redis.Password", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ctx := t.Context()
			admin.Do(ctx, "REPLICAOF", "NO", "ONE")
			admin.ConfigSet(ctx, "maxmemory", "0")
			admin.ConfigSet(ctx, "min-replicas-to-write", "0")
			admin.FlushAll(ctx)
			provision(t, admin, 1)
			p := open(t, c, server.Addr, func(cfg *producer.Config) {
				if tt.user != "" {
					cfg.Redis.Username, cfg.Redis.Password = tt.user, "pw"
				}
			})
			eventually(t, "the routing", func() bool { _, ok := p.Routing(); return ok })
			tt.provoke(ctx)
			_, err := p.Publish(ctx, message("k", "x"))
			wantError(t, err, producer.ErrRedisRefused, tt.words)
			if got := details(t, err); got.Retryable != tt.retryable {
				t.Errorf("retryable is %t", got.Retryable)
			}
			results, err := p.PublishBatch(ctx, numbered(3, 3))
			if got, want := codes(results), "REDIS_REFUSED REDIS_REFUSED REDIS_REFUSED"; got != want {
				t.Errorf("got %s, want %s (%v)", got, want, err)
			}
			admin.ConfigSet(ctx, "maxmemory", "0")
			if kind := admin.Type(ctx, "orders:0").Val(); kind == "stream" && admin.XLen(ctx, "orders:0").Val() != 0 {
				t.Error("something is stored")
			}
		})
	}
}

func TestAnswersOfAStub(t *testing.T) {
	tests := []struct {
		name, reply string
		want        *producer.PublishError
		retryable   bool
		words       string
	}{
		{"loading", "-LOADING Redis is loading the dataset in memory\r\n", producer.ErrRedisRefused, true, "LOADING"},
		{"replica", "-READONLY You can't write against a read only replica.\r\n", producer.ErrRedisRefused, true, "READONLY"},
		{"not enough replicas", "-NOREPLICAS Not enough good replicas to write.\r\n", producer.ErrRedisRefused, true, "NOREPLICAS"},
		{"no memory", "-OOM command not allowed when used memory > 'maxmemory'.\r\n", producer.ErrRedisRefused, true, "OOM"},
		{"slot not served", "-CLUSTERDOWN Hash slot not served\r\n", producer.ErrRedisRefused, true, "CLUSTERDOWN"},
		{"slot on its way", "-TRYAGAIN Multiple keys request during rehashing of slot\r\n", producer.ErrRedisRefused, true, "TRYAGAIN"},
		{"replica without its master", "-MASTERDOWN Link with MASTER is down\r\n", producer.ErrRedisRefused, true, "MASTERDOWN"},
		{"script forgotten", "-NOSCRIPT No matching script. Please use EVAL.\r\n", producer.ErrRedisRefused, true, "NOSCRIPT"},
		{"not allowed", "-NOPERM this user has no permissions to run the 'xadd' command\r\n", producer.ErrRedisRefused, false, "NOPERM"},
		{"not authenticated", "-NOAUTH Authentication required.\r\n", producer.ErrRedisRefused, false, "NOAUTH"},
		{"protected", "-DENIED Redis is running in protected mode\r\n", producer.ErrRedisRefused, false, "DENIED"},
		{"transaction discarded", "-EXECABORT Transaction discarded because of previous errors.\r\n", producer.ErrRedisRefused, false, "EXECABORT"},
		{"no id left", "-ERR The stream has exhausted the last possible ID, unable to add more items\r\n", producer.ErrRedisRefused, false, "exhausted"},
		{"too many clients of a cluster", "-ERR max number of clients + cluster connections reached\r\n", producer.ErrRedisRefused, true, "max number"},
		{"full, as its script says", "-RSCFULL the stream has 7 records\r\n", producer.ErrStreamFull, true, "7 records"},
		{"disk error", "-MISCONF Redis is configured to save RDB snapshots\r\n", producer.ErrRedisRefused, true, "MISCONF"},
		{"script running", "-BUSY Redis is busy running a script\r\n", producer.ErrRedisRefused, true, "BUSY"},
		{"too many clients", "-ERR max number of clients reached\r\n", producer.ErrRedisRefused, true, "max number"},
		{"some other refusal", "-ERR wrong number of arguments\r\n", producer.ErrRedisRefused, false, "wrong number"},
		{"cluster met as one server", "-MOVED 8578 127.0.0.1:7001\r\n", producer.ErrRedisRefused, false, "IsClusterMode"},
		{"key missing", "$-1\r\n", producer.ErrShardMissing, true, "orders:0"},
		{"key missing, RESP3", "_\r\n", producer.ErrShardMissing, true, "orders:0"},
		// A proxy speaks for itself: it may have lost the answer of a server.
		{"proxy", "-upstream failure\r\n", producer.ErrOutcomeUnknown, true, "upstream failure"},
		{"not the protocol", "HTTP/1.1 400 Bad Request\r\n", producer.ErrOutcomeUnknown, true, "orders:0"},
		{"connection closed", "", producer.ErrOutcomeUnknown, true, "EOF"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			stub := redistest.NewStub(t, func([]string) string { return tt.reply })
			p := open(t, newCoordinator(1), stub.Addr)
			_, err := p.Publish(t.Context(), message("k", "x"))
			wantError(t, err, tt.want, tt.words)
			if got := details(t, err); got.Retryable != tt.retryable {
				t.Errorf("retryable is %t", got.Retryable)
			}
			if n := len(stub.Seen()); n != 1 {
				t.Errorf("the message was sent %d times", n)
			}
			// The same for a pipeline.
			results, err := p.PublishBatch(t.Context(), numbered(2, 2))
			if got, want := codes(results), tt.want.Code+" "+tt.want.Code; got != want {
				t.Errorf("got %s, want %s (%v)", got, want, err)
			}
			// And for Send.
			_, results = outcomes(t, send(t, p, message("k", "x")))
			wantError(t, results[0].Err, tt.want, tt.words)
			if got := details(t, results[0].Err); got.Retryable != tt.retryable {
				t.Errorf("retryable is %t", got.Retryable)
			}
		})
	}
}

// A refusal that passes is waited out, in order.
func TestPassingRefusalIsRetried(t *testing.T) {
	var calls atomic.Int32
	stub := redistest.NewStub(t, func([]string) string {
		if n := calls.Add(1); n <= 3 {
			return "-LOADING Redis is loading the dataset in memory\r\n"
		}
		return redistest.Bulk("1-1")
	})
	p := open(t, newCoordinator(1), stub.Addr, func(cfg *producer.Config) { cfg.RetryFor = time.Minute })
	if _, err := p.Publish(t.Context(), message("k", "x")); err != nil {
		t.Fatal(err)
	}
	calls.Store(0)
	results, err := p.PublishBatch(t.Context(), numbered(3, 3))
	if err != nil {
		t.Fatalf("%v: %s", err, codes(results))
	}
	var order []string
	for _, args := range stub.Seen()[4:] {
		order = append(order, args[len(args)-1])
	}
	if want := []string{"0", "1", "2", "0", "1", "2"}; !reflect.DeepEqual(order, want) {
		t.Errorf("sent %v, want %v", order, want)
	}
}

func TestRetriesEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stub := redistest.NewPipeStub(t, func([]string) string { return "-LOADING busy\r\n" })
		p := open(t, newCoordinator(1), stub.Addr, piped(stub), func(cfg *producer.Config) { cfg.RetryFor = 300 * time.Millisecond })
		began := time.Now()
		_, err := p.Publish(t.Context(), message("k", "x"))
		wantError(t, err, producer.ErrRedisRefused, "LOADING")
		if n := len(stub.Seen()); n < 4 || n > 6 { // after 20 ms, 40 ms, …, or half of that
			t.Errorf("the message was sent %d times", n)
		}
		if d := time.Since(began); d > 300*time.Millisecond {
			t.Errorf("retries went on for %s", d)
		}
	})

	// The caller's context ends them too, and the reason for them stays visible.
	ctx, cancel := context.WithCancel(t.Context())
	var calls atomic.Int32
	canceling := redistest.NewStub(t, func([]string) string {
		if calls.Add(1) == 3 {
			cancel()
		}
		return "-LOADING busy\r\n"
	})
	slow := open(t, newCoordinator(1), canceling.Addr, func(cfg *producer.Config) { cfg.RetryFor = time.Hour })
	_, err := slow.Publish(ctx, message("k", "x"))
	wantError(t, err, producer.ErrRedisRefused, "LOADING")
	if !errors.Is(err, context.Canceled) || calls.Load() != 3 {
		t.Errorf("got %v after %d attempts", err, calls.Load())
	}
}

// A broken server is asked with one message until it has stored it.
func TestBatchDoesNotFloodABrokenServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stub := redistest.NewPipeStub(t, func([]string) string { return "-LOADING busy\r\n" })
		p := open(t, newCoordinator(1), stub.Addr, piped(stub), func(cfg *producer.Config) { cfg.RetryFor = 500 * time.Millisecond })
		results, err := p.PublishBatch(t.Context(), numbered(400, 400))
		wantError(t, err, producer.ErrRedisRefused, "LOADING")
		for i, r := range results {
			if r.Err == nil {
				t.Fatalf("message %d is stored", i)
			}
		}
		if n := len(stub.Seen()); n < 403 || n > 410 {
			t.Errorf("%d commands", n)
		}
	})
}

// The time for retries begins anew whenever something was stored: a large batch
// does not run out of it because it is large.
func TestRetriesOfABatchThatGetsOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := make(map[string]bool)
		stub := redistest.NewPipeStub(t, func(args []string) string {
			// One connection, so one goroutine.
			if body := args[len(args)-1]; !seen[body] {
				seen[body] = true
				return "-LOADING Redis is loading the dataset in memory\r\n"
			}
			return redistest.Bulk("1-1")
		})
		p := open(t, newCoordinator(1), stub.Addr, piped(stub), func(cfg *producer.Config) {
			cfg.RetryFor, cfg.PipelineMessages = 250*time.Millisecond, 1
		})
		began := time.Now()
		results, err := p.PublishBatch(t.Context(), numbered(50, 1))
		if err != nil {
			t.Fatalf("%v: %s", err, codes(results))
		}
		if d := time.Since(began); d < 500*time.Millisecond {
			t.Errorf("50 pauses took %s together: too little to show anything", d)
		}
	})
}

// What a server refuses for good holds its key back, in the same part and in
// later ones.
func TestRefusedMessageHoldsItsKey(t *testing.T) {
	stub := redistest.NewStub(t, func(args []string) string {
		if args[len(args)-1] == "0" {
			return "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"
		}
		return redistest.Bulk("1-1")
	})
	p := open(t, newCoordinator(1), stub.Addr, func(cfg *producer.Config) { cfg.PipelineMessages = 2 })
	results, err := p.PublishBatch(t.Context(), numbered(6, 2))
	if got, want := codes(results), "REDIS_REFUSED ok EARLIER_FAILED ok EARLIER_FAILED ok"; got != want {
		t.Errorf("got %s, want %s (%v)", got, want, err)
	}
	if n := len(stub.Seen()); n != 4 {
		t.Errorf("%d messages were sent, want 4", n)
	}
}

// A server that changes its mind within a pipeline refuses a message and stores
// a later one of its key. The refused one must not be sent again.
func TestOvertakenMessageIsNotSentAgain(t *testing.T) {
	var calls atomic.Int32
	stub := redistest.NewStub(t, func([]string) string {
		if calls.Add(1) == 1 {
			return "-OOM command not allowed when used memory > 'maxmemory'\r\n"
		}
		return redistest.Bulk("1-1")
	})
	p := open(t, newCoordinator(1), stub.Addr, func(cfg *producer.Config) { cfg.RetryFor, cfg.PipelineMessages = time.Minute, 3 })
	results, err := p.PublishBatch(t.Context(), []producer.Message{
		message("a", "1"), message("b", "1"), message("a", "2"), message("a", "3"), message("b", "2"),
	})
	if got, want := codes(results), "OVERTAKEN ok ok EARLIER_FAILED ok"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	wantError(t, err, producer.ErrOvertaken, "OOM")
	if n := len(stub.Seen()); n != 4 {
		t.Errorf("%d messages were sent, want 4", n)
	}
}

// A refused message that nothing has overtaken is sent again, and those behind
// it wait for it.
func TestRefusedMessageComesBeforeThoseBehindIt(t *testing.T) {
	var calls atomic.Int32
	stub := redistest.NewStub(t, func([]string) string {
		if n := calls.Add(1); n == 2 || n == 3 {
			return "-OOM command not allowed when used memory > 'maxmemory'\r\n"
		}
		return redistest.Bulk("1-" + strconv.Itoa(int(calls.Load())))
	})
	p := open(t, newCoordinator(1), stub.Addr, func(cfg *producer.Config) { cfg.RetryFor, cfg.PipelineMessages = time.Minute, 3 })
	results, err := p.PublishBatch(t.Context(), numbered(5, 1))
	if err != nil {
		t.Fatalf("%v: %s", err, codes(results))
	}
	var order []string
	for _, args := range stub.Seen() {
		order = append(order, args[len(args)-1])
	}
	if got, want := strings.Join(order, " "), "0 1 2 1 2 3 4"; got != want {
		t.Errorf("sent %s, want %s", got, want)
	}
}

// The pool is empty: the message was certainly not sent.
func TestPoolExhaustion(t *testing.T) {
	type call func(ctx context.Context, p *producer.Producer) error
	for name, publish := range map[string]call{
		"one message": func(ctx context.Context, p *producer.Producer) error {
			_, err := p.Publish(ctx, message("k", "1"))
			return err
		},
		"batch": func(ctx context.Context, p *producer.Producer) error {
			_, err := p.PublishBatch(ctx, numbered(2, 1))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			stub, arrived, release := blocked(t)
			exhausted := func(timeout time.Duration) *producer.Producer {
				return open(t, newCoordinator(1), stub.Addr, func(cfg *producer.Config) {
					cfg.Redis.PoolSize, cfg.Redis.PoolTimeout = 1, timeout
				})
			}
			p, patient := exhausted(50*time.Millisecond), exhausted(redistest.Patience)
			// Calls hold connections until there is none left. The first can be the
			// last: newer Redis clients have a few more for pipelines.
			outcomes := make(chan error, 60)
			var err error
			held := 0
			for err == nil && held < 30 {
				go func() { outcomes <- publish(t.Context(), p) }()
				select {
				case <-arrived:
					held++
				case err = <-outcomes:
				}
			}
			wantError(t, err, producer.ErrRedisUnavailable, "pool timeout", "pool size")
			// A deadline that ends before the pool gives up.
			for range held {
				go func() { outcomes <- publish(t.Context(), patient) }()
				<-arrived
			}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			defer cancel()
			wantError(t, publish(ctx, patient), producer.ErrCanceled)
			if n := len(stub.Seen()); n != 2*held {
				t.Errorf("%d messages were sent over %d connections", n, 2*held)
			}
			release()
			for range 2 * held {
				if err := <-outcomes; err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// A server that takes connections and says nothing while they are set up: the
// message was not sent, however the attempt ended.
func TestHandshakeThatNeverEnds(t *testing.T) {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	p := open(t, newCoordinator(1), l.Addr().String(), func(cfg *producer.Config) {
		cfg.Redis.ReadTimeout = 100 * time.Millisecond
	})
	_, err = p.Publish(t.Context(), message("k", "x"))
	wantError(t, err, producer.ErrRedisUnavailable, "timeout")
	results, _ := p.PublishBatch(t.Context(), numbered(2, 2))
	if got, want := codes(results), "REDIS_UNAVAILABLE REDIS_UNAVAILABLE"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestSettingsThatWouldSendTwiceAreOverridden(t *testing.T) {
	server := redistest.Start(t)
	provision(t, server.Client, 1)
	proxy := redistest.NewProxy(t, server.Addr)
	options := options(proxy.Addr)
	options.MaxRetries = 5
	p := open(t, newCoordinator(1), proxy.Addr, func(cfg *producer.Config) { cfg.Redis = options })
	proxy.LoseReply("NOMKSTREAM", 0)
	_, err := p.Publish(t.Context(), message("k", "x"))
	wantError(t, err, producer.ErrOutcomeUnknown)
	if n := server.Client.XLen(t.Context(), "orders:0").Val(); n != 1 {
		t.Errorf("%d records are stored, want 1", n)
	}
	if options.MaxRetries != 5 || len(options.Addrs) != 1 {
		t.Errorf("the caller's options were changed: %+v", options)
	}
}
