package blackbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/redis-stream-coordinator/rsc/e2e/faultkit"
)

// oldClient is a consumer as it was written for an earlier implementation of the
// coordinator, in another language: it knows none of the fields that were added since,
// never says goodbye, reports nothing but the shards that it reads, and ends for good
// on any HTTP status of 400 and above, on any answer that lacks a field it needs, and on
// any error of Redis.
type oldClient struct {
	t      *testing.T
	member string
	base   string
	token  string
	redis  *goredis.Client
	http   *http.Client

	epoch, version int64
	status         string
	interval       time.Duration
	next           time.Time
	assigned       map[int]bool
	turn           int

	// handled counts the records by payload, of all clients of a test.
	handled *ledger
	// died is what ended it, retried counts the answers RETRY.
	died    atomic.Pointer[string]
	retried atomic.Int64
	reads   atomic.Int64
	stop    context.CancelFunc
	ended   chan struct{}
}

// ledger counts the records that were handled, by payload.
type ledger struct {
	mu      sync.Mutex
	handled map[string]int
}

func (l *ledger) note(payload string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.handled[payload]++
}

func (l *ledger) distinct() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.handled)
}

// statusesOfOld are the only ones that such a client knows.
var statusesOfOld = []string{
	"OK", "RETRY", "SYNC_METADATA", "REVOKE_PENDING", "UNKNOWN_MEMBER_ID", "FENCED_MEMBER_EPOCH", "UNSUPPORTED_PROTOCOL", "INVALID_REQUEST",
}

// startOld starts a client; the test's end stops it.
func startOld(t *testing.T, member string, c *coordinator, redis *redisServer, handled *ledger) *oldClient {
	t.Helper()
	o := &oldClient{
		t: t, member: member, base: c.URL, redis: goredis.NewClient(&goredis.Options{Addr: strings.TrimPrefix(redis.url, "redis://"), MaxRetries: -1}),
		http: &http.Client{Timeout: 5 * time.Second}, interval: time.Second, assigned: map[int]bool{}, handled: handled, ended: make(chan struct{}),
	}
	status, body := c.Call(http.MethodPost, "/coord/v1/auth/login", map[string]string{"username": "admin", "password": "password"})
	var login struct {
		AccessToken string `json:"accessToken"`
	}
	if err := json.Unmarshal(body, &login); err != nil || status != http.StatusOK || login.AccessToken == "" {
		t.Fatalf("login: %d %s", status, body)
	}
	o.token = login.AccessToken
	ctx, stop := context.WithCancel(context.Background())
	o.stop = stop
	go func() {
		defer close(o.ended)
		o.run(ctx)
	}()
	t.Cleanup(func() {
		o.kill()
		_ = o.redis.Close()
	})
	return o
}

// kill stops the client as a killed process stops: without a word.
func (o *oldClient) kill() {
	o.stop()
	<-o.ended
}

// alive fails the test if the client has ended by itself.
func (o *oldClient) alive() {
	o.t.Helper()
	if why := o.died.Load(); why != nil {
		o.t.Fatalf("client %s ended: %s", o.member, *why)
	}
}

func (o *oldClient) run(ctx context.Context) {
	for ctx.Err() == nil {
		if err := o.step(ctx); err != nil {
			if ctx.Err() == nil {
				why := err.Error()
				o.died.Store(&why)
			}
			return
		}
	}
}

// step is one round of its loop: a heartbeat when one is due, then a read.
func (o *oldClient) step(ctx context.Context) error {
	if !time.Now().Before(o.next) {
		began := time.Now()
		if err := o.beat(ctx); err != nil {
			return err
		}
		o.next = began.Add(o.interval)
	}
	n, err := o.read(ctx)
	if err == nil && n == 0 {
		pause(ctx, min(50*time.Millisecond, o.interval))
	}
	return err
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// errUnreachable is nothing that a coordinator says: a load balancer in front of several
// would have asked another one.
var errUnreachable = errors.New("nobody answers")

// beat sends a heartbeat and applies the answer.
func (o *oldClient) beat(ctx context.Context) error {
	answer, err := o.post(ctx)
	if errors.Is(err, errUnreachable) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, field := range []string{"status", "memberId", "memberEpoch", "heartbeatIntervalMs", "groupEpoch", "assignmentEpoch", "metadataVersion"} {
		if answer[field] == nil {
			return fmt.Errorf("the answer lacks %s: %v", field, answer)
		}
	}
	assignment, ok := answer["assignment"].(map[string]any)
	if !ok {
		return fmt.Errorf("assignment is no object: %v", answer)
	}
	o.status, _ = answer["status"].(string)
	if !slices.Contains(statusesOfOld, o.status) {
		return fmt.Errorf("unknown status %q", o.status)
	}
	ms, err := numberOf(answer, "heartbeatIntervalMs")
	if err != nil || ms <= 0 {
		return fmt.Errorf("heartbeatIntervalMs is %v", answer["heartbeatIntervalMs"])
	}
	o.interval = time.Duration(ms) * time.Millisecond
	version, err := numberOf(answer, "metadataVersion")
	if err != nil {
		return err
	}
	switch o.status {
	case "RETRY":
		o.retried.Add(1)
		return nil
	case "UNKNOWN_MEMBER_ID", "FENCED_MEMBER_EPOCH":
		o.epoch, o.version = 0, version
		clear(o.assigned)
		return nil
	}
	if o.epoch, err = numberOf(answer, "memberEpoch"); err != nil {
		return err
	}
	o.version = version
	now, err := shardsOfOld(assignment["assignedShards"])
	switch {
	case err != nil:
		return err
	case o.status == "OK":
		o.assigned = now
	case o.status == "SYNC_METADATA" || o.status == "REVOKE_PENDING":
		maps.DeleteFunc(o.assigned, func(shard int, _ bool) bool { return !now[shard] })
	}
	return nil
}

func numberOf(answer map[string]any, field string) (int64, error) {
	n, ok := answer[field].(json.Number)
	if !ok {
		return 0, fmt.Errorf("%s is %v", field, answer[field])
	}
	return n.Int64()
}

func shardsOfOld(list any) (map[int]bool, error) {
	items, ok := list.([]any)
	if !ok {
		return nil, fmt.Errorf("assignedShards is %v", list)
	}
	shards := map[int]bool{}
	for _, item := range items {
		one, _ := item.(map[string]any)
		index, ok := one["shardIndex"].(json.Number)
		n, err := index.Int64()
		if !ok || err != nil {
			return nil, fmt.Errorf("a shard is %v", item)
		}
		shards[int(n)] = true
	}
	return shards, nil
}

// post sends what it knows of itself.
func (o *oldClient) post(ctx context.Context) (map[string]any, error) {
	owned := []map[string]int{}
	for _, shard := range slices.Sorted(maps.Keys(o.assigned)) {
		owned = append(owned, map[string]int{"shardIndex": shard})
	}
	body, err := json.Marshal(map[string]any{
		"protocolVersion": 1, "requestId": fmt.Sprintf("%s-%d", o.member, time.Now().UnixNano()), "memberId": o.member, "memberName": o.member,
		"memberEpoch": o.epoch, "metadataVersion": o.version,
		"runtimeConsumerCapacity": map[string]int{"runtimeMaxConcurrency": 1, "availableConcurrency": 1},
		"ownedShards":             owned,
	})
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, o.base+"/coord/v1/streams/"+stream+"/groups/"+group+"/members/"+o.member+"/heartbeat", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer "+o.token)
	response, err := o.http.Do(request)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUnreachable, err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUnreachable, err)
	}
	if response.StatusCode >= 400 {
		return nil, fmt.Errorf("status %d: %s", response.StatusCode, text)
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var answer map[string]any
	err = decoder.Decode(&answer)
	return answer, err
}

// read reads one page from all of its shards, and handles it.
func (o *oldClient) read(ctx context.Context) (int, error) {
	if o.status != "OK" || len(o.assigned) == 0 {
		return 0, nil
	}
	var keys, ids []string
	for shard := range o.assigned {
		keys, ids = append(keys, shardKey(shard)), append(ids, ">")
	}
	slices.Sort(keys)
	o.turn++
	at := o.turn % len(keys)
	keys = append(slices.Clone(keys[at:]), keys[:at]...)
	read, err := o.redis.XReadGroup(ctx, &goredis.XReadGroupArgs{Group: group, Consumer: o.member, Streams: append(keys, ids...), Count: 10, Block: 100 * time.Millisecond}).Result()
	switch {
	case errors.Is(err, goredis.Nil):
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("read: %w", err)
	}
	o.reads.Add(1)
	n := 0
	for _, s := range read {
		for _, m := range s.Messages {
			payload, _ := m.Values["payload"].(string)
			o.handled.note(payload)
			if err := o.redis.XAck(ctx, s.Stream, group, m.ID).Err(); err != nil {
				return n, fmt.Errorf("acknowledge: %w", err)
			}
			n++
		}
	}
	return n, nil
}

// producer writes records with running numbers to all shards until it is stopped.
func feedOld(t *testing.T, redis *redisServer, shards int) (written func() int, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var n atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ctx.Err() == nil; i++ {
			err := redis.Client.XAdd(ctx, &goredis.XAddArgs{Stream: shardKey(i % shards), NoMkStream: true, Values: []any{"payload", fmt.Sprint(i)}}).Err()
			if err == nil {
				n.Add(1)
			} else if ctx.Err() == nil {
				t.Errorf("write record %d: %v", i, err)
			}
			pause(ctx, 5*time.Millisecond)
		}
	}()
	stop = func() {
		cancel()
		<-done
	}
	t.Cleanup(stop)
	return func() int { return int(n.Load()) }, stop
}

// TestOldClientsLive takes clients of before through everything that happens to a
// coordinator: none of them is ever answered with something that ends it, and all that
// was written is handled.
func TestOldClientsLive(t *testing.T) {
	need(t, "redis-server")
	const shards = 4
	metadata, records := startRedis(t, faultkit.Options{Durable: true}), startRedis(t, faultkit.Options{})
	c := startCoordinator(t, "--redis", metadata.url, "--set", "coordinator.streams.redis.url="+records.url, "--set", "coordinator.routing-lease=1s")
	c.CreateStream(stream, shards)
	if status, body := c.Call(http.MethodPost, "/coord/v1/streams/"+stream+"/groups/"+group, map[string]string{"requestedBy": "test"}); status != http.StatusCreated {
		t.Fatalf("create the group: %d %s", status, body)
	}
	handled := &ledger{handled: map[string]int{}}
	written, stopFeed := feedOld(t, records, shards)
	clients := map[string]*oldClient{}
	join := func(member string) { clients[member] = startOld(t, member, c, records, handled) }
	read := shards
	converge := func(what string) {
		t.Helper()
		faultkit.Eventually(t, 60*time.Second, what, func() bool {
			for _, o := range clients {
				o.alive()
			}
			members, held := c.holders()
			return members == len(clients) && held == read
		})
	}
	answers := func(what string) {
		t.Helper()
		faultkit.Eventually(t, 30*time.Second, what, func() bool {
			status, _ := c.Call(http.MethodGet, "/coord/v1/monitoring/streams/"+stream+"/groups/"+group+"/members", nil)
			return status == http.StatusOK
		})
	}
	scale := func(to int) {
		t.Helper()
		faultkit.Eventually(t, 60*time.Second, fmt.Sprintf("the stream is scaled to %d shards", to), func() bool {
			status, body := c.Call(http.MethodPost, "/coord/v1/streams/"+stream+"/scale", map[string]any{"targetShardCount": to, "requestedBy": "test", "reason": "test"})
			if status != http.StatusAccepted && status != http.StatusConflict { // the change before is not done yet
				t.Fatalf("scale to %d: %d %s", to, status, body)
			}
			return status == http.StatusAccepted
		})
		read = to
	}

	join("a")
	converge("a reads all shards")
	join("b")
	converge("a and b share the shards")

	clients["b"].kill()
	delete(clients, "b")
	converge("a takes over what b has left behind")

	join("c")
	converge("a and c share the shards")
	c.Proc.Kill()
	c.Restart()
	converge("the coordinator has started again")

	scale(shards + 2)
	converge("a and c share more shards")
	scale(shards)
	converge("a and c share as many as before")
	faultkit.Eventually(t, 60*time.Second, "the removed shards are gone", func() bool {
		for _, o := range clients {
			o.alive() // no shard was removed while it read
		}
		n, err := records.Client.Exists(t.Context(), shardKey(shards), shardKey(shards+1)).Result()
		return err == nil && n == 0
	})

	// A hiccup of the store, shorter than a lease.
	metadata.Pause()
	before := clients["a"].retried.Load()
	faultkit.Eventually(t, 30*time.Second, "a is told to try again", func() bool {
		clients["a"].alive()
		return clients["a"].retried.Load() > before
	})
	metadata.Resume()
	answers("the store answers after the hiccup")
	converge("the store answers again")

	// The store is away for longer than a lease, and its process with it.
	metadata.Kill()
	time.Sleep(lease + lease/2)
	metadata.Restart()
	answers("the store answers after its restart")
	converge("the store has started again")

	// An operator takes a out of work, and puts it back.
	order := map[string]string{"requestedBy": "test", "reason": "test"}
	drain := "/coord/v1/streams/" + stream + "/groups/" + group + "/members/a/drain"
	if status, body := c.Call(http.MethodPost, drain, order); status != http.StatusOK {
		t.Fatalf("drain a: %d %s", status, body)
	}
	faultkit.Eventually(t, 60*time.Second, "c reads all shards", func() bool {
		clients["a"].alive()
		members, held := c.holders()
		return members == 1 && held == shards
	})
	if status, body := c.Call(http.MethodDelete, drain, order); status != http.StatusOK {
		t.Fatalf("put a back: %d %s", status, body)
	}
	converge("a and c share the shards again")

	// One coordinator shuts down in order, and another takes its place.
	c.Proc.Stop(startTimeout)
	c.Restart()
	converge("the coordinator has started once more")

	stopFeed()
	total := written()
	faultkit.Eventually(t, 60*time.Second, "all that was written is handled", func() bool {
		for _, o := range clients {
			o.alive()
		}
		// What b was given and did not acknowledge nobody of this kind recovers.
		return handled.distinct() >= total-int(records.pendingOf("b", shards))
	})
	for member, o := range clients {
		if o.reads.Load() == 0 {
			t.Errorf("%s has read nothing: nothing was tried", member)
		}
	}
	t.Logf("%d records, %d handled; a was told RETRY %d times", total, handled.distinct(), clients["a"].retried.Load())
}

// TestBacklogOfOneRecord: a scaler sees one record on one of many shards.
func TestBacklogOfOneRecord(t *testing.T) {
	need(t, "redis-server")
	const shards = 64
	redis := startRedis(t, faultkit.Options{})
	c := startCoordinator(t, "--redis", redis.url)
	c.CreateStream(stream, shards)
	if status, body := c.Call(http.MethodPost, "/coord/v1/streams/"+stream+"/groups/"+group, map[string]string{"requestedBy": "test"}); status != http.StatusCreated {
		t.Fatalf("create the group: %d %s", status, body)
	}
	backlog := func() (n int) {
		t.Helper()
		status, body := c.Call(http.MethodGet, "/coord/v1/monitoring/streams/"+stream+"/groups/"+group+"/backlog", nil)
		var b struct {
			Backlog *int `json:"backlog"`
		}
		if err := json.Unmarshal(body, &b); err != nil || status != http.StatusOK || b.Backlog == nil {
			t.Fatalf("backlog: %d %s", status, body)
		}
		return *b.Backlog
	}
	if n := backlog(); n != 0 {
		t.Fatalf("the backlog of nothing is %d", n)
	}
	if err := redis.Client.XAdd(t.Context(), &goredis.XAddArgs{Stream: shardKey(37), NoMkStream: true, Values: []any{"payload", "one"}}).Err(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	faultkit.Eventually(t, 20*time.Second, "the record is seen", func() bool { return backlog() == 1 })
	t.Logf("one record on one of %d shards was seen after %s", shards, time.Since(began).Round(time.Millisecond))
}

// pendingOf counts the records that a consumer was given and has not acknowledged.
func (r *redisServer) pendingOf(consumer string, shards int) (n int64) {
	r.t.Helper()
	for shard := range shards {
		consumers, err := r.Client.XInfoConsumers(r.t.Context(), shardKey(shard), group).Result()
		if err != nil {
			r.t.Fatal(err)
		}
		for _, one := range consumers {
			if one.Name == consumer {
				n += one.Pending
			}
		}
	}
	return n
}
