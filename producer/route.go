package producer

import (
	"errors"
	"fmt"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
	"github.com/redis-stream-coordinator/rsc/core/routing"
)

const (
	// defaultLease is meant by coordinators that announce no routing lease.
	defaultLease = 30 * time.Second
	// minLease is the shortest lease that can be worked with: it must outlast the
	// pause between two requests.
	minLease = 100 * time.Millisecond
	maxLease = 24 * time.Hour
)

// Routing is what a producer knows about its stream, for display.
type Routing struct {
	Stream, Group string
	// MetadataVersion is the stream's version; it changes with the shard count.
	MetadataVersion int64
	// Shards has one entry per shard, in the order of their indexes.
	Shards []Shard
	// RequestedAt is when the request was sent that this was the answer to, and
	// ExpiresAt when its lease ends.
	RequestedAt, ExpiresAt time.Time
	// RefreshError is why the latest refresh failed, nil if it did not.
	RefreshError error
}

// Shard is one shard of a stream.
type Shard struct {
	Index int
	// Key is the shard's key in Redis, Slot that key's slot in a Cluster.
	Key  string
	Slot int
}

// snapshot is one answer of the coordinator, with its lease. It never changes.
type snapshot struct {
	version   int64
	keys      []string // by shard index
	requested time.Time
	lease     time.Duration
	// ends carries a monotonic reading, endsWall none: the lease ends when either
	// clock says so. The monotonic clock stands still while a machine is
	// suspended, the wall clock can be set back.
	ends, endsWall time.Time
}

// newSnapshot checks an answer. It was asked for at the time requested, and the
// lease counts from then: how long the answer took is not known to the sender.
func newSnapshot(r *protocol.Routing, stream, group string, requested time.Time) (*snapshot, error) {
	switch {
	case r == nil:
		return nil, errors.New("the routing is empty")
	case r.StreamPrefix != stream || r.ConsumerGroup != group:
		return nil, fmt.Errorf("the routing is that of stream %q and group %q, asked was for %q and %q",
			r.StreamPrefix, r.ConsumerGroup, stream, group)
	case r.ShardCount < 0 || r.ShardCount > protocol.MaxShards:
		return nil, fmt.Errorf("shardCount: is %d, must be between 0 and %d", r.ShardCount, protocol.MaxShards)
	case len(r.Shards) != r.ShardCount:
		return nil, fmt.Errorf("shards: has %d entries for a shardCount of %d", len(r.Shards), r.ShardCount)
	}
	lease := time.Duration(min(r.RoutingLeaseMs, maxLease.Milliseconds())) * time.Millisecond
	switch {
	case r.RoutingLeaseMs == 0:
		lease = defaultLease
	case lease < minLease:
		return nil, fmt.Errorf("routingLeaseMs: is %d, must be at least %d", r.RoutingLeaseMs, minLease.Milliseconds())
	}
	keys := make([]string, r.ShardCount)
	for _, s := range r.Shards {
		i := int(s.ShardIndex)
		if i < 0 || i >= len(keys) {
			return nil, fmt.Errorf("shards: index %d does not exist with a shardCount of %d", i, r.ShardCount)
		}
		if keys[i] != "" {
			return nil, fmt.Errorf("shards: index %d is there twice", i)
		}
		// Consumers make the key up by themselves and never look at the routing,
		// so a record under any other key would be read by nobody.
		if want := routing.StreamKey(stream, i); s.StreamKey != want {
			return nil, fmt.Errorf("shards: the key of shard %d is %q, must be %q", i, s.StreamKey, want)
		}
		keys[i] = s.StreamKey
	}
	ends := requested.Add(lease)
	return &snapshot{
		version: r.MetadataVersion, keys: keys,
		requested: requested, lease: lease,
		ends: ends, endsWall: ends.Round(0),
	}, nil
}

// valid reports whether the lease holds at now, which carries a monotonic
// reading.
func (s *snapshot) valid(now time.Time) bool {
	return now.Before(s.ends) && now.Round(0).Before(s.endsWall)
}

// shardOf picks the shard of m.
func (s *snapshot) shardOf(m *Message) (int, *PublishError) {
	if len(s.keys) == 0 {
		return 0, ErrNoShards
	}
	if !m.Shard.chosen {
		return routing.Shard(m.Key, len(s.keys)), nil
	}
	if i := m.Shard.index; i < 0 || i >= len(s.keys) {
		return 0, ErrNoSuchShard.with("shard %d does not exist: the stream has shards 0 to %d", i, len(s.keys)-1)
	}
	return m.Shard.index, nil
}

// display makes the public form of s.
func (s *snapshot) display(stream, group string, refreshError error) Routing {
	shards := make([]Shard, len(s.keys))
	for i, key := range s.keys {
		shards[i] = Shard{Index: i, Key: key, Slot: routing.Slot(key)}
	}
	return Routing{
		Stream: stream, Group: group, MetadataVersion: s.version, Shards: shards,
		RequestedAt: s.requested, ExpiresAt: s.ends, RefreshError: refreshError,
	}
}
