package redis_test

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/redis-stream-coordinator/rsc/adapters/redis"
	"github.com/redis-stream-coordinator/rsc/adapters/redis/internal/redistest"
	"github.com/redis-stream-coordinator/rsc/core/port"
)

// TestEmptyMaster: whichever master of a Cluster loses what it held, the store is
// another one from then on, the same for everybody.
func TestEmptyMaster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, false)
	cfg := redis.Config{Addrs: cluster.Addrs(), KeyPrefix: "P"}
	stores := []*redis.Store{openStore(t, cfg), openStore(t, cfg)}
	identity := func(s *redis.Store) string {
		t.Helper()
		id, err := s.Identity(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		return id.ID
	}
	before := identity(stores[0])
	for i, server := range cluster.Masters {
		if err := raw(t, server.URL()).FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		id := identity(stores[i%2])
		if id == before {
			t.Errorf("master %d was emptied: the id is still %s", i, id)
		}
		for _, s := range stores {
			if again := identity(s); again != id {
				t.Errorf("after master %d was emptied: id %s, want %s as told", i, again, id)
			}
		}
		// Who knew the id before leaves that behind for the other.
		for _, s := range []int{(i + 1) % 2, i % 2} {
			told, err := stores[s].Identity(t.Context(), before)
			if err != nil || told != (port.Identity{ID: id, Emptied: true}) {
				t.Errorf("after master %d was emptied: %+v, %v, want %s of a store that was emptied", i, told, err, id)
			}
		}
		before = id
	}
}

// TestRepairIndex: lists are made anew from the keys of all servers.
func TestRepairIndex(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]redis.Config{
		"one server": {URL: redistest.Start(t).URL()},
		"a Cluster":  {Addrs: redistest.StartCluster(t, 3, false).Addrs()},
	} {
		t.Run(name, func(t *testing.T) {
			cfg.KeyPrefix = "P[*]?"
			s := openStore(t, cfg)
			c := universal(t, cfg)
			var groups []port.GroupKey
			var streams []string
			for i := range 30 {
				key := port.GroupKey{Stream: fmt.Sprintf("orders:%02d", i), Group: "a:{b}%"}
				if _, err := s.SaveGroup(t.Context(), key, port.GroupSave{Nonce: "n", Body: []byte("x")}); err != nil {
					t.Fatal(err)
				}
				if _, err := s.SaveStream(t.Context(), key.Stream, port.StreamSave{Nonce: "n", Body: []byte("x")}); err != nil {
					t.Fatal(err)
				}
				groups, streams = append(groups, key), append(streams, key.Stream)
			}
			// Keys that only look like ours.
			for _, key := range []string{"P[*]?:{x}:metadata:more", "P*:{orders:x}:metadata", "P[*]?:{nocolon}:metadata"} {
				if err := c.HSet(t.Context(), key, "nonce", "n").Err(); err != nil {
					t.Fatal(err)
				}
			}
			if done, err := s.RepairIndex(t.Context()); err != nil || done != (port.Repair{}) {
				t.Errorf("nothing is wrong: %+v, %v", done, err)
			}
			if err := c.Del(t.Context(), "P[*]?:groups").Err(); err != nil {
				t.Fatal(err)
			}
			if err := c.SRem(t.Context(), "P[*]?:streams", "P[*]?:{orders:07}:stream").Err(); err != nil {
				t.Fatal(err)
			}
			if err := c.SAdd(t.Context(), "P[*]?:streams", "P[*]?:{gone}:stream").Err(); err != nil {
				t.Fatal(err)
			}
			wantGroups(t, s)
			done, err := s.RepairIndex(t.Context())
			if want := (port.Repair{Added: 31, Removed: 1}); err != nil || done != want {
				t.Errorf("repair: %+v, %v, want %+v", done, err, want)
			}
			wantGroups(t, s, groups...)
			if list, err := s.ListStreams(t.Context()); err != nil || !slices.Equal(list, streams) {
				t.Errorf("streams %v, %v", list, err)
			}
			if n := c.SIsMember(t.Context(), "P[*]?:streams", "P[*]?:{gone}:stream").Val(); n {
				t.Error("a name that stands for nothing is still there")
			}
		})
	}
}

// TestRepairBesideCreation: a repair, or a late deletion, takes the name of a record
// for one of nothing when it comes between the name and the record. No list lacks
// the record for that.
func TestRepairBesideCreation(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.StartProxy(t, server.Addr)
	s := openStore(t, redis.Config{URL: proxy.URL(), KeyPrefix: "P"})
	other := openStore(t, redis.Config{URL: server.URL(), KeyPrefix: "P"})
	for name, create := range map[string]func() error{
		"group": func() error {
			_, err := s.SaveGroup(t.Context(), orders, port.GroupSave{Nonce: "n", Body: []byte("x")})
			return err
		},
		"stream": func() error {
			_, err := s.SaveStream(t.Context(), "orders", port.StreamSave{Nonce: "n", Body: []byte("x")})
			return err
		},
	} {
		reached, release := proxy.Hold("evalsha")
		created := make(chan error, 1)
		go func() { created <- create() }()
		<-reached
		if done, err := other.RepairIndex(t.Context()); err != nil || done.Removed != 1 {
			t.Fatalf("%s: the repair beside it: %+v, %v", name, done, err)
		}
		release()
		if err := <-created; err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	wantGroups(t, other, orders)
	if list, err := other.ListStreams(t.Context()); err != nil || len(list) != 1 {
		t.Errorf("streams %v, %v", list, err)
	}
}

// TestLostReplyOnCluster: as on one server. The outcome is unknown, nothing is sent
// again, and the nonce tells.
func TestLostReplyOnCluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 1, false)
	proxy := redistest.StartProxy(t, cluster.Masters[0].Addr)
	c := raw(t, cluster.Masters[0].URL())
	_, announced, err := net.SplitHostPort(proxy.Addr)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.ConfigSet(t.Context(), "cluster-announce-port", announced).Err(); err != nil {
		t.Fatal(err)
	}
	s := openStore(t, redis.Config{Addrs: []string{proxy.Addr}, KeyPrefix: "P"})
	v, err := s.SaveGroup(t.Context(), orders, port.GroupSave{Nonce: "n1", Body: []byte("one")})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.RenewGroup(t.Context(), orders, port.Renewal{Expected: v}); err != nil {
		t.Fatal(err)
	}
	lost := func(what string, call func() error) {
		t.Helper()
		before := calls(t, c, "evalsha")
		proxy.LoseAnswerTo("evalsha")
		err := call()
		if err == nil || errors.Is(err, port.ErrConflict) || !strings.Contains(err.Error(), "no answer") {
			t.Errorf("%s: %v, want an unknown outcome", what, err)
		}
		if n := calls(t, c, "evalsha") - before; n != 1 {
			t.Errorf("%s: sent %d times", what, n)
		}
	}
	lost("save", func() error {
		_, err := s.SaveGroup(t.Context(), orders, port.GroupSave{Expected: v, Nonce: "n2", Body: []byte("two")})
		return err
	})
	r := load(t, s, orders)
	if r.Version.Revision != 2 || r.Version.Nonce != "n2" || string(r.Body) != "two" {
		t.Errorf("after the save: %+v", r)
	}
	lost("renewal", func() error {
		return s.RenewGroup(t.Context(), orders, port.Renewal{Expected: r.Version, Stamps: []port.Stamp{{Life: "x", Value: "1"}}})
	})
	if r = load(t, s, orders); r.Stamps["x"] != "1" {
		t.Errorf("after the renewal: %+v", r)
	}
	// A load may be repeated, and is.
	proxy.LoseAnswerTo("evalsha")
	gone := proxy.Lost.Load()
	if again := load(t, s, orders); again.Version != r.Version || proxy.Lost.Load() != gone+1 {
		t.Errorf("a load whose answer was lost: %+v", again)
	}
}

// TestOldFormOnCluster: a record of the old form is in another slot than ours.
func TestOldFormOnCluster(t *testing.T) {
	t.Parallel()
	cfg := redis.Config{Addrs: redistest.StartCluster(t, 3, false).Addrs(), KeyPrefix: "P"}
	s, c := openStore(t, cfg), universal(t, cfg)
	key := port.GroupKey{Stream: "orders", Group: "bill:ing"}
	const old = "P:{orders:bill:ing}:metadata"
	err := c.HSet(t.Context(), old, "aggregate", `{"streamPrefix":"orders","consumerGroup":"bill:ing"}`, "revision", "7",
		"schemaVersion", "1", "layoutVersion", "1", "updatedAt", "x").Err()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.SAdd(t.Context(), "P:groups", old).Err(); err != nil {
		t.Fatal(err)
	}
	wantGroups(t, s, key)
	r := load(t, s, key)
	if r.Version.Revision != 7 || r.Version.Nonce == "" {
		t.Errorf("loaded %+v", r)
	}
	wantGroups(t, s, key)
	if n := c.Exists(t.Context(), old).Val(); n != 0 {
		t.Error("the old key is still there")
	}
	if _, err := s.SaveGroup(t.Context(), key, port.GroupSave{Expected: r.Version, Nonce: "n", Body: []byte("x")}); err != nil {
		t.Error(err)
	}
}
