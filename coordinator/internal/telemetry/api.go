package telemetry

import (
	"context"
	"errors"
	"sync"

	httpapi "github.com/redis-stream-coordinator/rsc/adapters/http"
	"github.com/redis-stream-coordinator/rsc/core/port"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// How calls end, as labels.
const (
	success   = "SUCCESS"
	unchanged = "NOOP"
	failure   = "ERROR"
)

// Served measures a request that was answered. It is cheap: every heartbeat is one.
func (t *Telemetry) Served(s httpapi.Served) {
	g := t.strangers
	if s.Group != "" {
		g = t.about(s.Stream, s.Group)
	}
	route := s.Route
	if route == "" {
		route = none
	}
	g.requests.observe(t.now(), requestKind{methodOf(s.Method), route, s.Status}, s.Took)
	if s.Code != "" {
		t.refusals.add(s.Code)
	}
}

// refusals counts errors by code.
type refusals struct {
	mu     sync.Mutex
	byCode map[string]uint64
}

// maxCodes bounds the codes, which are the program's own.
const maxCodes = 256

func (r *refusals) add(code string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byCode == nil {
		r.byCode = map[string]uint64{}
	}
	if _, there := r.byCode[code]; there || len(r.byCode) < maxCodes {
		r.byCode[code]++
	}
}

func (r *refusals) each(f func(code string, n uint64)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for code, n := range r.byCode {
		f(code, n)
	}
}

// API returns a coordinator with the same behaviour whose answers are counted.
func (t *Telemetry) API(c httpapi.Coordinator) httpapi.Coordinator { return &api{c, t} }

type api struct {
	httpapi.Coordinator
	t *Telemetry
}

// Routing implements httpapi.Coordinator.
func (a *api) Routing(ctx context.Context, prefix, name string) (protocol.Routing, error) {
	r, err := a.Coordinator.Routing(ctx, prefix, name)
	g := a.t.about(prefix, name)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.routed[endOf(err, false)]++
	return r, err
}

// ScaleGroup implements httpapi.Coordinator.
func (a *api) ScaleGroup(ctx context.Context, prefix, name string, r protocol.Scale) (protocol.Migration, error) {
	m, err := a.Coordinator.ScaleGroup(ctx, prefix, name, r)
	end := endOf(err, m.ReshardingID == protocol.NoMigration)
	g := a.t.about(prefix, name)
	if name == wholeStream && g != a.t.strangers {
		// A group may have that name.
		a.t.streams.scaled(prefix, end)
		return m, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.scaled[end]++
	return m, err
}

// ScaleStream implements httpapi.Coordinator.
func (a *api) ScaleStream(ctx context.Context, prefix string, r protocol.Scale) (protocol.StreamScaled, error) {
	s, err := a.Coordinator.ScaleStream(ctx, prefix, r)
	end := endOf(err, len(s.Migrations) > 0 && s.Migrations[0].ReshardingID == protocol.NoMigration)
	if errors.Is(err, protocol.ErrStreamNotFound) || errors.Is(err, protocol.ErrInvalidRequest) {
		g := a.t.strangers
		g.mu.Lock()
		defer g.mu.Unlock()
		g.scaled[end]++
		return s, err
	}
	a.t.streams.scaled(prefix, end)
	return s, err
}

// about returns the statistics of a group, or those of all that do not exist.
func (t *Telemetry) about(prefix, name string) *groupStats {
	if g := t.known(port.GroupKey{Stream: prefix, Group: name}); g != nil {
		return g
	}
	return t.strangers
}

func endOf(err error, nothing bool) string {
	switch {
	case err != nil:
		return failure
	case nothing:
		return unchanged
	}
	return success
}
