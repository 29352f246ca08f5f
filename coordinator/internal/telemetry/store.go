package telemetry

import (
	"context"
	"errors"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/port"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
	"github.com/redis-stream-coordinator/rsc/core/service"
)

// Ports returns ports with the same behaviour whose calls are measured.
func (t *Telemetry) Ports(p service.Ports) service.Ports {
	measured := &store{p.Store, t}
	p.Store = measured
	if r, ok := measured.Store.(port.Repairer); ok {
		p.Store = struct {
			*store
			port.Repairer
		}{measured, r}
	}
	if p.Mutex != nil {
		p.Mutex = &mutex{p.Mutex, t}
	}
	return p
}

// store measures the calls of a store.
type store struct {
	port.Store
	t *Telemetry
}

// call is one call that is being measured.
type call struct {
	t     *Telemetry
	op    string
	start time.Duration
	span  span
}

// begin returns the context that the call is to be made with.
func (s *store) begin(ctx context.Context, op string) (context.Context, call) {
	ctx, span := s.t.tracing.child(ctx, op)
	return ctx, call{s.t, op, s.t.now(), span}
}

func (c call) end(ctx context.Context, err error) {
	failed := isFailure(err)
	c.t.process.operation(ctx, c.op, c.t.now()-c.start, failed)
	c.span.end(err, failed)
}

// isFailure tells trouble of the store from its answers, and from callers that went away.
func isFailure(err error) bool {
	return err != nil && !errors.Is(err, port.ErrConflict) && !errors.Is(err, port.ErrTooLarge) &&
		!errors.Is(err, protocol.ErrCorrupt) && !errors.Is(err, context.Canceled)
}

// LoadGroup implements port.Store.
func (s *store) LoadGroup(ctx context.Context, key port.GroupKey, known port.Version) (port.GroupRecord, error) {
	ctx, c := s.begin(ctx, opLoadGroup)
	rec, err := s.Store.LoadGroup(ctx, key, known)
	c.end(ctx, err)
	return rec, err
}

// SaveGroup implements port.Store.
func (s *store) SaveGroup(ctx context.Context, key port.GroupKey, save port.GroupSave) (port.Version, error) {
	ctx, c := s.begin(ctx, opSaveGroup)
	v, err := s.Store.SaveGroup(ctx, key, save)
	c.end(ctx, err)
	return v, err
}

// RenewGroup implements port.Store.
func (s *store) RenewGroup(ctx context.Context, key port.GroupKey, r port.Renewal) error {
	ctx, c := s.begin(ctx, opRenewGroup)
	err := s.Store.RenewGroup(ctx, key, r)
	c.end(ctx, err)
	return err
}

// DeleteGroup implements port.Store.
func (s *store) DeleteGroup(ctx context.Context, key port.GroupKey, expected port.Version) error {
	ctx, c := s.begin(ctx, opDeleteGroup)
	err := s.Store.DeleteGroup(ctx, key, expected)
	c.end(ctx, err)
	return err
}

// ListGroups implements port.Store.
func (s *store) ListGroups(ctx context.Context) ([]port.GroupKey, error) {
	ctx, c := s.begin(ctx, opListGroups)
	keys, err := s.Store.ListGroups(ctx)
	c.end(ctx, err)
	return keys, err
}

// Reports implements port.Store.
func (s *store) Reports(ctx context.Context, key port.GroupKey) (map[string][]byte, error) {
	ctx, c := s.begin(ctx, opReports)
	reports, err := s.Store.Reports(ctx, key)
	c.end(ctx, err)
	return reports, err
}

// LoadStream implements port.Store.
func (s *store) LoadStream(ctx context.Context, name string) (port.Record, error) {
	ctx, c := s.begin(ctx, opLoadStream)
	rec, err := s.Store.LoadStream(ctx, name)
	c.end(ctx, err)
	return rec, err
}

// SaveStream implements port.Store.
func (s *store) SaveStream(ctx context.Context, name string, save port.StreamSave) (port.Version, error) {
	ctx, c := s.begin(ctx, opSaveStream)
	v, err := s.Store.SaveStream(ctx, name, save)
	c.end(ctx, err)
	return v, err
}

// DeleteStream implements port.Store.
func (s *store) DeleteStream(ctx context.Context, name string, expected port.Version) error {
	ctx, c := s.begin(ctx, opDeleteStream)
	err := s.Store.DeleteStream(ctx, name, expected)
	c.end(ctx, err)
	return err
}

// ListStreams implements port.Store.
func (s *store) ListStreams(ctx context.Context) ([]string, error) {
	ctx, c := s.begin(ctx, opListStreams)
	names, err := s.Store.ListStreams(ctx)
	c.end(ctx, err)
	return names, err
}

// Identity implements port.Store.
func (s *store) Identity(ctx context.Context, known string) (port.Identity, error) {
	ctx, c := s.begin(ctx, opIdentity)
	id, err := s.Store.Identity(ctx, known)
	c.end(ctx, err)
	return id, err
}

// Ping implements port.Store.
func (s *store) Ping(ctx context.Context) (string, error) {
	ctx, c := s.begin(ctx, opPing)
	instance, err := s.Store.Ping(ctx)
	c.end(ctx, err)
	return instance, err
}

// mutex measures how long mutexes are waited for.
type mutex struct {
	port.Mutex
	t *Telemetry
}

// LockGroup implements port.Mutex.
func (m *mutex) LockGroup(ctx context.Context, key port.GroupKey) (func(), error) {
	start := m.t.now()
	unlock, err := m.Mutex.LockGroup(ctx, key)
	m.waited(ctx, mutexGroup, start, err)
	return unlock, err
}

// LockStream implements port.Mutex.
func (m *mutex) LockStream(ctx context.Context, name string) (func(), error) {
	start := m.t.now()
	unlock, err := m.Mutex.LockStream(ctx, name)
	m.waited(ctx, mutexStream, start, err)
	return unlock, err
}

func (m *mutex) waited(ctx context.Context, kind string, start time.Duration, err error) {
	m.t.process.wait(ctx, kind, m.t.now()-start, err == nil || errors.Is(err, context.Canceled))
}
