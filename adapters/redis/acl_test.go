package redis_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/redis-stream-coordinator/rsc/adapters/redis"
	"github.com/redis-stream-coordinator/rsc/adapters/redis/internal/redistest"
	"github.com/redis-stream-coordinator/rsc/core/port"
	"github.com/redis-stream-coordinator/rsc/core/routing"
)

// documentedRules are the rules of the ACL that the README lists, for the names of
// the suites.
func documentedRules(t *testing.T) []string {
	t.Helper()
	return slices.Concat(documentedBlocks(t)...)
}

// documentedBlocks are those rules, list by list.
func documentedBlocks(t *testing.T) (lists [][]string) {
	t.Helper()
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	for block := range strings.SplitSeq(string(text), "```") {
		list, isACL := strings.CutPrefix(block, "acl\n")
		if !isACL {
			continue
		}
		var rules []string
		for _, rule := range strings.Fields(list) {
			if strings.ContainsRune("~&+-", rune(rule[0])) || strings.HasPrefix(rule, "reset") {
				rule = strings.Replace(rule, "redis-stream:coord:", "test-*:", 1)
				rules = append(rules, strings.Replace(rule, "~orders:", "~porttest*:", 1))
			}
		}
		lists = append(lists, rules)
	}
	if len(lists) < 2 {
		t.Fatalf("the README lists rules %q, want some for the records and some for the streams", lists)
	}
	return lists
}

// setUser makes the user coordinator, who may do what rules say.
func setUser(ctx context.Context, c goredis.UniversalClient, rules ...string) error {
	args := []any{"ACL", "SETUSER", "coordinator", "reset", "on", ">pw"}
	for _, rule := range rules {
		args = append(args, rule)
	}
	return c.Do(ctx, args...).Err()
}

// wantUsed fails for commands that the user may carry out and nobody did.
func wantUsed(t *testing.T, rules []string, but []string, clients ...*goredis.Client) {
	t.Helper()
	for _, rule := range rules {
		name, command := strings.CutPrefix(rule, "+")
		if !command || slices.Contains(but, name) {
			continue
		}
		n := 0
		for _, c := range clients {
			n += calls(t, c, name)
		}
		if n == 0 {
			t.Errorf("the README asks for %s, which nothing needs", rule)
		}
	}
}

// TestDocumentedRules: with the rules that the README lists, and no other, all of
// the suites pass on one server, and each rule is needed.
func TestDocumentedRules(t *testing.T) {
	t.Parallel()
	url := redistest.Start(t).URL()
	admin, rules := raw(t, url), documentedRules(t)
	if err := setUser(t.Context(), admin, rules...); err != nil {
		t.Fatal(err)
	}
	cfg := redis.Config{URL: url, Username: "coordinator", Password: "pw"}
	metadataSuites(t, cfg)
	s := openStore(t, redis.Config{URL: url, Username: "coordinator", Password: "pw", KeyPrefix: freshPrefix()})
	if _, err := s.RepairIndex(t.Context()); err != nil {
		t.Error(err)
	}
	streamSuites(t, cfg, admin, func(ctx context.Context) error { return removeKeys(ctx, admin) })
	streams := open(t, cfg).Streams()
	if err := streams.Provision(t.Context(), port.Provision{Prefix: "porttest-inspect", End: 1, Groups: []string{"g"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := streams.Inspect(t.Context(), []string{routing.StreamKey("porttest-inspect", 0)}, 10); err != nil {
		t.Errorf("inspect: %v", err)
	}
	keys := []string{routing.StreamKey("porttest-inspect", 0)}
	if states, err := streams.InspectShards(t.Context(), port.ShardQuery{Keys: keys, Group: "g", Memory: true}); err != nil || states[0].Err != nil || states[0].MemoryBytes <= 0 {
		t.Errorf("inspect shards: %+v, %v", states, err)
	}
	if _, err := streams.ReadEntries(t.Context(), []port.EntryRange{{Key: keys[0], Backward: true, Count: 1}}); err != nil {
		t.Errorf("read entries: %v", err)
	}
	if _, _, err := streams.Entry(t.Context(), routing.StreamKey("porttest-inspect", 0), "1-1"); err != nil {
		t.Errorf("entry: %v", err)
	}
	cfg.KeyPrefix, cfg.Mutex.TTL = freshPrefix(), 15*time.Second // not so short that it may be lost before
	if err := open(t, cfg).Audit().Record(t.Context(), port.AuditEntry{StreamPrefix: "orders"}); err != nil {
		t.Errorf("audit: %v", err)
	}
	unlock, err := openMutex(t, cfg).LockStream(t.Context(), "orders")
	if err != nil {
		t.Fatal(err)
	}
	redistest.Eventually(t, "the mutex to be renewed", func() bool { return calls(t, admin, "pexpire") > 0 })
	unlock()
	wantUsed(t, rules, []string{"cluster|slots", "asking", "wait"}, admin)
}

// TestDocumentedRulesOnCluster: the same on a Cluster, waiting for a replica with
// each write, and with a slot on its way.
func TestDocumentedRulesOnCluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, true)
	admin, rules := rawCluster(t, cluster.Addrs()), documentedRules(t)
	var nodes []*goredis.Client
	for _, server := range slices.Concat(cluster.Masters, cluster.Replicas) {
		node := raw(t, server.URL())
		if err := setUser(t.Context(), node, rules...); err != nil {
			t.Fatal(err)
		}
		nodes = append(nodes, node)
	}
	cfg := redis.Config{Addrs: cluster.Addrs(), Username: "coordinator", Password: "pw", WaitReplicas: 1}
	metadataSuites(t, cfg)
	streamSuites(t, cfg, admin, func(ctx context.Context) error { return admin.ForEachMaster(ctx, removeKeys) })
	cfg.KeyPrefix = freshPrefix()
	s := openStore(t, cfg)
	key := port.GroupKey{Stream: "orders", Group: "billing"}
	v, err := s.SaveGroup(t.Context(), key, port.GroupSave{
		Nonce: "n1", Body: []byte("one"), Stamps: []port.Stamp{{Life: "x", Value: "1"}}, Reports: []port.Report{{Life: "x", Body: []byte("r")}},
	})
	if err != nil {
		t.Fatal(err)
	}
	slot := slotOf(cfg.KeyPrefix, key)
	from := cluster.Owner(slot)
	redistest.MoveSlot(slot, from, cluster.Masters[(slices.Index(cluster.Masters, from)+1)%3], true)
	r, err := s.LoadGroup(t.Context(), key, v)
	if err != nil || string(r.Body) != "one" || r.Version.Instance == v.Instance {
		t.Errorf("a group on its way: %+v, %v; it was at %+v", r, err, v)
	}
	if n := calls(t, nodes[0], "wait") + calls(t, nodes[1], "wait") + calls(t, nodes[2], "wait"); n == 0 {
		t.Error("no replica was waited for")
	}
	wantUsed(t, []string{"+cluster|slots", "+asking"}, nil, nodes...)
}

// TestDocumentedRulesOfStreams: where the streams are on another Redis than the records,
// the rules for them are enough.
func TestDocumentedRulesOfStreams(t *testing.T) {
	t.Parallel()
	url := redistest.Start(t).URL()
	admin := raw(t, url)
	if err := setUser(t.Context(), admin, documentedBlocks(t)[1]...); err != nil {
		t.Fatal(err)
	}
	cfg := redis.Config{URL: url, Username: "coordinator", Password: "pw"}
	streamSuites(t, cfg, admin, func(ctx context.Context) error { return removeKeys(ctx, admin) })
}

// TestNoChannel: a user who may neither publish nor listen keeps records all the
// same, and is told once what that costs.
func TestNoChannel(t *testing.T) {
	t.Parallel()
	url := redistest.Start(t).URL()
	var rules []string
	for _, rule := range documentedRules(t) {
		if rule[0] != '&' {
			rules = append(rules, rule)
		}
	}
	if err := setUser(t.Context(), raw(t, url), rules...); err != nil {
		t.Fatal(err)
	}
	var log syncBuffer
	s := openStore(t, redis.Config{
		URL: url, Username: "coordinator", Password: "pw", KeyPrefix: freshPrefix(), Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.Watch(ctx, func(c port.Change) { t.Errorf("told %+v by a channel that is forbidden", c) })
	}()
	var v port.Version
	for i := range 5 {
		var err error
		if v, err = s.SaveGroup(t.Context(), orders, port.GroupSave{Expected: v, Nonce: fmt.Sprint(i), Body: []byte("x")}); err != nil {
			t.Fatal(err)
		}
	}
	if r := load(t, s, orders); r.Version != v || v.Revision != 5 {
		t.Errorf("loaded %+v, saved %+v", r.Version, v)
	}
	if err := s.DeleteGroup(t.Context(), orders, v); err != nil {
		t.Error(err)
	}
	redistest.Eventually(t, "a word about listening", func() bool { return strings.Contains(log.String(), "are not heard") })
	cancel()
	<-ended
	for _, once := range []string{"cannot be announced", "are not heard"} {
		if n := strings.Count(log.String(), once); n != 1 {
			t.Errorf("%q is logged %d times:\n%s", once, n, log.String())
		}
	}
}

// syncBuffer is a buffer that several goroutines write to.
type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// slotOf is the slot of a group's keys.
func slotOf(prefix string, key port.GroupKey) int {
	return routing.Slot(fmt.Sprintf("%s:{%s:%s}:metadata", prefix, key.Stream, key.Group))
}
