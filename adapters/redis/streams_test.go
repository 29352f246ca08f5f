package redis_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/redis-stream-coordinator/rsc/adapters/redis"
	"github.com/redis-stream-coordinator/rsc/adapters/redis/internal/redistest"
	"github.com/redis-stream-coordinator/rsc/core/port"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// TestProvisioningRefused: the error names group, key and cause.
func TestProvisioningRefused(t *testing.T) {
	url := redistest.Start(t).URL()
	c := raw(t, url)
	// Shards 2 and on are out of this user's reach.
	if err := c.Do(t.Context(), "ACL", "SETUSER", "narrow", "on", ">pw", "~orders:0", "~orders:1", "%R~*", "+@all").Err(); err != nil {
		t.Fatal(err)
	}
	s := open(t, redis.Config{URL: url, Username: "narrow", Password: "pw"}).Streams()
	err := s.Provision(t.Context(), port.Provision{Prefix: "orders", End: 4, Groups: []string{"billing"}, Start: protocol.StartEarliest})
	if !errors.Is(err, protocol.ErrProvisioning) {
		t.Fatalf("got %v, want ErrProvisioning", err)
	}
	for _, part := range []string{"billing", "orders:2", "NOPERM", "2 of 4"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error does not say %q: %v", part, err)
		}
	}
	err = s.Provision(t.Context(), port.Provision{Prefix: "orders", End: 4, Start: protocol.StartEarliest})
	if !errors.Is(err, protocol.ErrProvisioning) || !strings.Contains(err.Error(), "orders:2") {
		t.Errorf("without groups: got %v, want ErrProvisioning that names the key", err)
	}
	if err := s.Remove(t.Context(), "orders", 0, 4); err == nil {
		t.Error("remove: no error")
	}
	if err := s.RemoveGroup(t.Context(), "orders", "billing", 0, 4); err == nil {
		t.Error("remove group: no error")
	}
}

// TestManyForeignKeys: the error names some and counts the rest.
func TestManyForeignKeys(t *testing.T) {
	url := startMini(t)
	c := raw(t, url)
	for i := range 14 {
		c.Set(t.Context(), fmt.Sprintf("orders:%d", i), "x", 0)
	}
	err := open(t, redis.Config{URL: url}).Streams().Provision(t.Context(), port.Provision{Prefix: "orders", End: 20, Groups: []string{"g"}})
	if !errors.Is(err, protocol.ErrStreamExists) || !strings.Contains(err.Error(), "orders:9 (string) and 4 more") {
		t.Errorf("got %v", err)
	}
}

// TestProvisioningAway: no server, no streams, and a sentence that says so.
func TestProvisioningAway(t *testing.T) {
	server := redistest.Start(t)
	s := open(t, redis.Config{URL: server.URL()}).Streams()
	server.Kill()
	err := s.Provision(t.Context(), port.Provision{Prefix: "orders", End: 2, Groups: []string{"g"}})
	if !errors.Is(err, protocol.ErrProvisioning) || !strings.Contains(err.Error(), "orders") {
		t.Errorf("got %v", err)
	}
	if err := s.Ping(t.Context()); err == nil {
		t.Error("ping: no error")
	}
}
