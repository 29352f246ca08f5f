package telemetry

import (
	"sync"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
	"github.com/redis-stream-coordinator/rsc/core/service"
	"github.com/redis-stream-coordinator/rsc/core/stream"
)

// streams is what happened to streams since this process has known them.
type streams struct {
	mu       sync.Mutex
	byPrefix map[string]*streamStats
}

type streamStats struct {
	// scaled counts requests to change the shard count by how they ended, states the
	// migrations that came to a state.
	scaled map[string]uint64
	states map[protocol.MigrationState]uint64
}

// of returns the statistics of a stream that exists; mu is held.
func (x *streams) of(prefix string) *streamStats {
	if x.byPrefix == nil {
		x.byPrefix = map[string]*streamStats{}
	}
	st, there := x.byPrefix[prefix]
	if !there {
		st = &streamStats{scaled: map[string]uint64{}, states: map[protocol.MigrationState]uint64{}}
		x.byPrefix[prefix] = st
	}
	return st
}

// happened counts events of a stream.
func (x *streams) happened(prefix string, events []stream.Event) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, e := range events {
		if e, is := e.(stream.Resharding); is {
			x.of(prefix).states[e.State]++
		}
	}
}

func (x *streams) scaled(prefix, status string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.of(prefix).scaled[status]++
}

// each calls f for the streams that exist, and forgets the others.
func (x *streams) each(exist []service.StreamLook, f func(prefix string, st *streamStats)) {
	x.mu.Lock()
	defer x.mu.Unlock()
	kept := make(map[string]*streamStats, len(x.byPrefix))
	for i := range exist {
		if st, there := x.byPrefix[exist[i].Prefix]; there {
			kept[exist[i].Prefix] = st
			f(exist[i].Prefix, st)
		}
	}
	x.byPrefix = kept
}
