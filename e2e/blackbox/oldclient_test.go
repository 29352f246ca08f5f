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
		t: t, member: member, base: c.URL, redis: goredis.NewClient(&goredis.Options{
			// Redis errors end it, so it is patient with one that stands still.
			Addr: strings.TrimPrefix(redis.url, "redis://"), MaxRetries: -1,
			DialTimeout: startTimeout, ReadTimeout: startTimeout, WriteTimeout: startTimeout,
		}),
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
