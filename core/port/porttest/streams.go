package porttest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/redis-stream-coordinator/rsc/core/port"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// Redis is a Redis with the adapter that is tested on it.
type Redis struct {
	Streams port.Streams
	// Shards is for the suite of that name alone.
	Shards port.Shards
	// Do sends one command on one key to the same Redis and returns the reply:
	// nil, string, int64, or []any of these.
	Do func(ctx context.Context, args ...any) (any, error)
}

// Streams runs the suite for adapters of streams. open returns an adapter on a
// Redis that holds no key that starts with "porttest".
func Streams(t *testing.T, open func(t *testing.T) Redis) {
	t.Helper()
	for _, test := range []struct {
		name string
		run  func(*testing.T, Redis)
	}{
		{"Provision", testProvision},
		{"ProvisionWithoutGroups", testProvisionWithoutGroups},
		{"ProvisionAgain", testProvisionAgain},
		{"ProvisionMore", testProvisionMore},
		{"ProvisionNothing", testProvisionNothing},
		{"StartEarliest", testStartEarliest},
		{"StartLatest", testStartLatest},
		{"ForeignKeys", testForeignKeys},
		{"ManyShards", testManyShards},
		{"Remove", testRemove},
		{"RemoveGroup", testRemoveGroup},
		{"HostileNames", testStreamNames},
		{"EndedContext", testStreamsEndedContext},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, open(t)) })
	}
}

func (r Redis) do(t *testing.T, args ...any) any {
	t.Helper()
	reply, err := r.Do(t.Context(), args...)
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return reply
}

func (r Redis) provision(t *testing.T, p port.Provision) {
	t.Helper()
	if err := r.Streams.Provision(t.Context(), p); err != nil {
		t.Fatalf("provision %+v: %v", p, err)
	}
}

func (r Redis) wantType(t *testing.T, key, want string) {
	t.Helper()
	if got := r.do(t, "TYPE", key); got != want {
		t.Errorf("key %q: type %v, want %s", key, got, want)
	}
}

// wantGroups fails unless the stream has so many groups, these among them.
func (r Redis) wantGroups(t *testing.T, key string, groups ...string) {
	t.Helper()
	r.wantType(t, key, "stream")
	if list, _ := r.do(t, "XINFO", "GROUPS", key).([]any); len(list) != len(groups) {
		t.Errorf("stream %q has %d groups, want %q", key, len(list), groups)
	}
	for _, group := range groups {
		if _, err := r.Do(t.Context(), "XPENDING", key, group); err != nil {
			t.Errorf("stream %q, group %q: %v", key, group, err)
		}
	}
}

// read lets the group read all that is new to it and returns how many entries
// are pending then.
func (r Redis) read(t *testing.T, key, group string) int64 {
	t.Helper()
	// The reply is of no interest: nil where nothing is new, which is an error
	// in some clients.
	_, err := r.Do(t.Context(), "XREADGROUP", "GROUP", group, "reader", "COUNT", 1000, "STREAMS", key, ">")
	if err != nil && strings.HasPrefix(err.Error(), "NOGROUP") {
		t.Fatalf("read %q as %q: %v", key, group, err)
	}
	summary, _ := r.do(t, "XPENDING", key, group).([]any)
	if len(summary) == 0 {
		t.Fatalf("XPENDING %s %s: empty reply", key, group)
	}
	pending, _ := summary[0].(int64)
	return pending
}

// shard is the key of a shard, spelt out: the form of it is part of the contract.
func shard(prefix string, i int) string { return fmt.Sprintf("%s:%d", prefix, i) }

func testProvision(t *testing.T, r Redis) {
	r.provision(t, port.Provision{Prefix: "porttest", End: 3, Groups: []string{"g", "h"}, Start: protocol.StartEarliest})
	for i := range 3 {
		r.wantGroups(t, shard("porttest", i), "g", "h")
	}
	r.wantType(t, shard("porttest", 3), "none")
	if err := r.Streams.Ping(t.Context()); err != nil {
		t.Errorf("ping: %v", err)
	}
	// A producer that never creates a stream finds the key.
	if id := r.do(t, "XADD", shard("porttest", 1), "NOMKSTREAM", "*", "k", "v"); id == nil {
		t.Error("XADD NOMKSTREAM finds no stream")
	}
}

func testProvisionWithoutGroups(t *testing.T, r Redis) {
	r.do(t, "XADD", shard("porttest", 0), "5-1", "k", "v")
	r.do(t, "XGROUP", "CREATE", shard("porttest", 0), "mine", "0")
	for range 2 {
		r.provision(t, port.Provision{Prefix: "porttest", End: 3, Start: protocol.StartEarliest})
		r.wantGroups(t, shard("porttest", 0), "mine")
		r.wantGroups(t, shard("porttest", 1))
		r.wantGroups(t, shard("porttest", 2))
	}
	if n := r.do(t, "XLEN", shard("porttest", 0)); n != int64(1) {
		t.Errorf("%v records, want 1", n)
	}
}

func testProvisionAgain(t *testing.T, r Redis) {
	p := port.Provision{Prefix: "porttest", End: 2, Groups: []string{"g"}, Start: protocol.StartEarliest}
	r.provision(t, p)
	key := shard("porttest", 1)
	for range 3 {
		r.do(t, "XADD", key, "*", "k", "v")
	}
	if n := r.read(t, key, "g"); n != 3 {
		t.Fatalf("%d entries pending, want 3", n)
	}
	r.provision(t, p)
	r.wantGroups(t, key, "g")
	if n := r.do(t, "XLEN", key); n != int64(3) {
		t.Errorf("%v records after the second time, want 3", n)
	}
	if n := r.read(t, key, "g"); n != 3 {
		t.Errorf("%d entries pending after the second time, want the same 3", n)
	}
}

func testProvisionMore(t *testing.T, r Redis) {
	r.provision(t, port.Provision{Prefix: "porttest", End: 2, Groups: []string{"g"}, Start: protocol.StartEarliest})
	r.provision(t, port.Provision{Prefix: "porttest", First: 1, End: 4, Groups: []string{"g", "h"}, Start: protocol.StartEarliest})
	r.wantGroups(t, shard("porttest", 0), "g")
	for i := 1; i < 4; i++ {
		r.wantGroups(t, shard("porttest", i), "g", "h")
	}
}

func testProvisionNothing(t *testing.T, r Redis) {
	r.provision(t, port.Provision{Prefix: "porttest", Groups: []string{"g"}, Start: protocol.StartEarliest})
	r.provision(t, port.Provision{Prefix: "porttest", First: 2, End: 1, Groups: []string{"g"}, Start: protocol.StartEarliest})
	if err := r.Streams.Remove(t.Context(), "porttest", 0, 0); err != nil {
		t.Errorf("remove nothing: %v", err)
	}
	if err := r.Streams.RemoveGroup(t.Context(), "porttest", "g", 0, 0); err != nil {
		t.Errorf("remove the group from nothing: %v", err)
	}
	r.wantType(t, shard("porttest", 0), "none")
	r.wantType(t, shard("porttest", 1), "none")
}

func testStartEarliest(t *testing.T, r Redis) {
	key := shard("porttest", 0)
	for range 4 {
		r.do(t, "XADD", key, "*", "k", "v")
	}
	r.do(t, "XGROUP", "CREATE", key, "old", "$")
	r.provision(t, port.Provision{Prefix: "porttest", End: 1, Groups: []string{"old", "new"}, Start: protocol.StartEarliest})
	if n := r.read(t, key, "new"); n != 4 {
		t.Errorf("the new group was given %d records, want 4", n)
	}
	if n := r.read(t, key, "old"); n != 0 {
		t.Errorf("the old group was moved: it was given %d records", n)
	}
}

func testStartLatest(t *testing.T, r Redis) {
	key := shard("porttest", 0)
	for range 4 {
		r.do(t, "XADD", key, "*", "k", "v")
	}
	r.provision(t, port.Provision{Prefix: "porttest", End: 2, Groups: []string{"g"}, Start: protocol.StartLatest})
	if n := r.read(t, key, "g"); n != 0 {
		t.Errorf("the group was given %d records from before its time", n)
	}
	r.do(t, "XADD", key, "*", "k", "v")
	if n := r.read(t, key, "g"); n != 1 {
		t.Errorf("the group was given %d records, want the 1 that came after", n)
	}
	r.do(t, "XADD", shard("porttest", 1), "*", "k", "v")
	if n := r.read(t, shard("porttest", 1), "g"); n != 1 {
		t.Errorf("the group was given %d records of a fresh stream, want 1", n)
	}
}

func testForeignKeys(t *testing.T, r Redis) {
	r.do(t, "SET", shard("porttest", 1), "mine")
	r.do(t, "HSET", shard("porttest", 3), "mine", "too")
	for _, groups := range [][]string{{"g"}, nil} {
		err := r.Streams.Provision(t.Context(), port.Provision{Prefix: "porttest", End: 5, Groups: groups, Start: protocol.StartEarliest})
		if !errors.Is(err, protocol.ErrStreamExists) {
			t.Fatalf("provision over other keys: got %v, want ErrStreamExists", err)
		}
		for _, i := range []int{1, 3} {
			if !strings.Contains(err.Error(), shard("porttest", i)) {
				t.Errorf("the error does not name key %s: %v", shard("porttest", i), err)
			}
		}
		for _, i := range []int{0, 2, 4} {
			r.wantType(t, shard("porttest", i), "none")
		}
	}
	if err := r.Streams.Remove(t.Context(), "porttest", 0, 5); err != nil {
		t.Errorf("remove: %v", err)
	}
	if err := r.Streams.RemoveGroup(t.Context(), "porttest", "g", 0, 5); err != nil {
		t.Errorf("remove group: %v", err)
	}
	r.wantType(t, shard("porttest", 1), "string")
	r.wantType(t, shard("porttest", 3), "hash")
}

func testManyShards(t *testing.T, r Redis) {
	const shards = 1201 // more than fit into one go
	groups := []string{"g", "h"}
	r.provision(t, port.Provision{Prefix: "porttest", End: shards, Groups: groups, Start: protocol.StartEarliest})
	for i := range shards {
		r.wantGroups(t, shard("porttest", i), groups...)
	}
	if err := r.Streams.RemoveGroup(t.Context(), "porttest", "g", 0, shards); err != nil {
		t.Fatalf("remove group: %v", err)
	}
	for i := range shards {
		r.wantGroups(t, shard("porttest", i), "h")
	}
	if err := r.Streams.Remove(t.Context(), "porttest", 0, shards); err != nil {
		t.Fatalf("remove: %v", err)
	}
	for i := range shards {
		r.wantType(t, shard("porttest", i), "none")
	}
	r.provision(t, port.Provision{Prefix: "porttest", End: shards, Start: protocol.StartEarliest})
	for i := range shards {
		r.wantGroups(t, shard("porttest", i))
	}
}

func testRemove(t *testing.T, r Redis) {
	r.provision(t, port.Provision{Prefix: "porttest", End: 5, Groups: []string{"g"}, Start: protocol.StartEarliest})
	r.do(t, "XADD", shard("porttest", 2), "*", "k", "v")
	for range 2 { // what is gone already is no error
		if err := r.Streams.Remove(t.Context(), "porttest", 1, 4); err != nil {
			t.Fatalf("remove: %v", err)
		}
		for i, want := range []string{"stream", "none", "none", "none", "stream"} {
			r.wantType(t, shard("porttest", i), want)
		}
	}
}

func testRemoveGroup(t *testing.T, r Redis) {
	r.provision(t, port.Provision{Prefix: "porttest", End: 3, Groups: []string{"g", "h"}, Start: protocol.StartEarliest})
	r.do(t, "XADD", shard("porttest", 1), "*", "k", "v")
	r.read(t, shard("porttest", 1), "g")
	for range 2 {
		if err := r.Streams.RemoveGroup(t.Context(), "porttest", "g", 0, 5); err != nil {
			t.Fatalf("remove group: %v", err)
		}
		for i := range 3 {
			r.wantGroups(t, shard("porttest", i), "h")
		}
		r.wantType(t, shard("porttest", 3), "none")
	}
	if n := r.do(t, "XLEN", shard("porttest", 1)); n != int64(1) {
		t.Errorf("%v records after the group is gone, want 1", n)
	}
}

func testStreamNames(t *testing.T, r Redis) {
	groups := []string{"a:b", "{a}", "%", " ", "日本", "$", "0", "*"}
	for _, prefix := range []string{"porttest:a", "porttest a", "porttest%3A", "porttest日本", "porttest*"} {
		r.provision(t, port.Provision{Prefix: prefix, End: 2, Groups: groups, Start: protocol.StartEarliest})
		for i := range 2 {
			r.wantGroups(t, shard(prefix, i), groups...)
		}
	}
	if err := r.Streams.Remove(t.Context(), "porttest*", 0, 2); err != nil {
		t.Fatalf("remove: %v", err)
	}
	r.wantType(t, "porttest*:0", "none")
	r.wantType(t, "porttest a:0", "stream")
}

func testStreamsEndedContext(t *testing.T, r Redis) {
	r.provision(t, port.Provision{Prefix: "porttest", End: 1, Groups: []string{"g"}, Start: protocol.StartEarliest})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, call := range map[string]func() error{
		"provision": func() error {
			return r.Streams.Provision(ctx, port.Provision{Prefix: "porttest", End: 2, Groups: []string{"g", "h"}, Start: protocol.StartEarliest})
		},
		"provision without groups": func() error {
			return r.Streams.Provision(ctx, port.Provision{Prefix: "porttest", End: 2, Start: protocol.StartEarliest})
		},
		"remove":       func() error { return r.Streams.Remove(ctx, "porttest", 0, 1) },
		"remove group": func() error { return r.Streams.RemoveGroup(ctx, "porttest", "g", 0, 1) },
		"ping":         func() error { return r.Streams.Ping(ctx) },
	} {
		if call() == nil {
			t.Errorf("%s: no error though the context has ended", name)
		}
	}
	r.wantGroups(t, shard("porttest", 0), "g")
	r.wantType(t, shard("porttest", 1), "none")
}
