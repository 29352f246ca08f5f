package producer

import (
	"maps"
	"sync"
	"sync/atomic"
)

// Stats says what a producer has done since it was made, and what it holds now.
type Stats struct {
	// Published counts messages that Redis has confirmed.
	Published uint64
	// Failed counts messages that ended with an error, by its Code; it has no
	// entry for what never happened. A message that Send did not take is no part of it.
	Failed map[string]uint64
	// Unknown counts those of them whose outcome is unknown.
	Unknown uint64
	// Exchanges counts the requests to Redis, each with one message or a pipeline
	// of them, and Attempts the messages in them: their quotient is the mean size
	// of a pipeline.
	Exchanges, Attempts uint64
	// Redirects counts attempts that a node of a Redis Cluster sent elsewhere.
	Redirects uint64
	// RoutingChanges counts how often the number of shards was another one than
	// before, RoutingFailures the requests for the routing that failed.
	RoutingChanges, RoutingFailures uint64
	// Dropped says by shard what a length limit with one of the policies that drop
	// has removed; see Config.WhenFull.
	Dropped map[int]Drops
	// Buffered and BufferedBytes are what Send has taken and has no outcome yet.
	Buffered, BufferedBytes int
}

// Drops counts records that were removed from a shard to make room.
type Drops struct {
	// Records is how many were removed.
	Records uint64
	// Unread is how many of them some consumer group had not been given, or all
	// where there was no group.
	Unread uint64
}

type stats struct {
	published, unknown, exchanges, attempts, redirects, routingChanges, routingFailures atomic.Uint64

	mu      sync.Mutex
	failed  map[string]uint64
	dropped map[int]Drops
}

func (s *stats) countFailure(err *PublishError) {
	if err.Outcome == Unknown {
		s.unknown.Add(1)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed == nil {
		s.failed = make(map[string]uint64)
	}
	s.failed[err.Code]++
}

func (s *stats) countDrops(shard int, d Drops) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dropped == nil {
		s.dropped = make(map[int]Drops)
	}
	sum := s.dropped[shard]
	s.dropped[shard] = Drops{sum.Records + d.Records, sum.Unread + d.Unread}
}

func (s *stats) snapshot() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Stats{
		Published: s.published.Load(), Unknown: s.unknown.Load(), Failed: maps.Clone(s.failed),
		Exchanges: s.exchanges.Load(), Attempts: s.attempts.Load(), Redirects: s.redirects.Load(),
		RoutingChanges: s.routingChanges.Load(), RoutingFailures: s.routingFailures.Load(),
		Dropped: maps.Clone(s.dropped),
	}
}
