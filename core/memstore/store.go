package memstore

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/redis-stream-coordinator/rsc/core/port"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// MaxBodyBytes is the largest body that a Store takes; a larger one is
// port.ErrTooLarge.
const MaxBodyBytes = protocol.MaxAggregateBytes

// errNoNonce is a mistake of the caller: without a nonce nobody could tell
// whether a write whose answer was lost took place.
var errNoNonce = errors.New("a write needs a nonce")

// Store is a port.Store in memory. Use New; it is safe for concurrent use.
type Store struct {
	// identity names the store as a whole; it has no id until somebody asks.
	identity port.Identity
	instance string

	mu      sync.Mutex
	groups  map[port.GroupKey]*group
	streams map[string]*record

	watchers map[*watcher]struct{}
}

var _ port.Store = (*Store)(nil)

// record is one written state; it is replaced as a whole and never changed.
type record struct {
	revision int64
	nonce    string
	body     []byte
}

type group struct {
	record
	stamps  map[string]string
	reports map[string][]byte
}

// New returns an empty store with a random instance id of its own.
func New() *Store {
	return &Store{
		instance: rand.Text(),
		groups:   make(map[port.GroupKey]*group),
		streams:  make(map[string]*record),
		watchers: make(map[*watcher]struct{}),
	}
}

// LoadGroup implements port.Store.
func (s *Store) LoadGroup(ctx context.Context, key port.GroupKey, known port.Version) (port.GroupRecord, error) {
	if ctx.Err() != nil {
		return port.GroupRecord{}, context.Cause(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.groups[key]
	if g == nil {
		return port.GroupRecord{Record: s.absent()}, nil
	}
	return port.GroupRecord{Record: s.read(&g.record, known), Stamps: maps.Clone(g.stamps)}, nil
}

// SaveGroup implements port.Store.
func (s *Store) SaveGroup(ctx context.Context, key port.GroupKey, save port.GroupSave) (port.Version, error) {
	if err := checkWrite(ctx, save.Nonce, save.Body); err != nil {
		return port.Version{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.groups[key]
	if !s.holds(save.Expected, g.state()) || !g.unchanged(save.Relied) {
		return port.Version{}, port.ErrConflict
	}
	if g == nil {
		g = &group{stamps: make(map[string]string), reports: make(map[string][]byte)}
		s.groups[key] = g
	}
	g.record = next(save.Expected, save.Nonce, save.Body)
	g.write(save.Stamps, save.Reports)
	for _, life := range save.Ended {
		delete(g.stamps, life)
		delete(g.reports, life)
	}
	s.tell(port.Change{Key: key, Revision: g.revision, Nonce: g.nonce})
	return s.version(&g.record), nil
}

// RenewGroup implements port.Store.
func (s *Store) RenewGroup(ctx context.Context, key port.GroupKey, r port.Renewal) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.groups[key]
	if g == nil || !s.holds(r.Expected, g.state()) {
		return port.ErrConflict
	}
	g.write(r.Stamps, r.Reports)
	return nil
}

// DeleteGroup implements port.Store.
func (s *Store) DeleteGroup(ctx context.Context, key port.GroupKey, expected port.Version) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.groups[key]
	if g == nil || !s.holds(expected, g.state()) {
		return port.ErrConflict
	}
	delete(s.groups, key)
	s.tell(port.Change{Key: key})
	return nil
}

// ListGroups implements port.Store.
func (s *Store) ListGroups(ctx context.Context) ([]port.GroupKey, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.SortedFunc(maps.Keys(s.groups), func(a, b port.GroupKey) int {
		return cmp.Or(cmp.Compare(a.Stream, b.Stream), cmp.Compare(a.Group, b.Group))
	}), nil
}

// Reports implements port.Store.
func (s *Store) Reports(ctx context.Context, key port.GroupKey) (map[string][]byte, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.groups[key]
	if g == nil {
		return nil, nil
	}
	reports := make(map[string][]byte, len(g.reports))
	for life, body := range g.reports {
		reports[life] = bytes.Clone(body)
	}
	return reports, nil
}

// LoadStream implements port.Store.
func (s *Store) LoadStream(ctx context.Context, prefix string) (port.Record, error) {
	if ctx.Err() != nil {
		return port.Record{}, context.Cause(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.streams[prefix]
	if r == nil {
		return s.absent(), nil
	}
	return s.read(r, port.Version{}), nil
}

// SaveStream implements port.Store.
func (s *Store) SaveStream(ctx context.Context, prefix string, save port.StreamSave) (port.Version, error) {
	if err := checkWrite(ctx, save.Nonce, save.Body); err != nil {
		return port.Version{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.holds(save.Expected, s.streams[prefix]) {
		return port.Version{}, port.ErrConflict
	}
	r := next(save.Expected, save.Nonce, save.Body)
	s.streams[prefix] = &r
	return s.version(&r), nil
}

// DeleteStream implements port.Store.
func (s *Store) DeleteStream(ctx context.Context, prefix string, expected port.Version) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.streams[prefix]
	if r == nil || !s.holds(expected, r) {
		return port.ErrConflict
	}
	delete(s.streams, prefix)
	return nil
}

// ListStreams implements port.Store.
func (s *Store) ListStreams(ctx context.Context) ([]string, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.streams)), nil
}

// Identity implements port.Store.
func (s *Store) Identity(ctx context.Context, known string) (port.Identity, error) {
	if ctx.Err() != nil {
		return port.Identity{}, context.Cause(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.identity.ID == "" {
		s.identity.ID = rand.Text()
	}
	if known != "" && known != s.identity.ID {
		s.identity.Emptied = true
	}
	return s.identity, nil
}

// Clear loses everything, the identity of the store included, as an operator
// does who empties a server.
func (s *Store) Clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.identity = port.Identity{}
	for key := range s.groups {
		s.tell(port.Change{Key: key})
	}
	clear(s.groups)
	clear(s.streams)
}

// Ping implements port.Store.
func (s *Store) Ping(ctx context.Context) (string, error) {
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	return s.instance, nil
}

// checkWrite refuses what must not even be tried.
func checkWrite(ctx context.Context, nonce string, body []byte) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case nonce == "":
		return errNoNonce
	case len(body) > MaxBodyBytes:
		return port.ErrTooLarge
	}
	return nil
}

// holds reports whether r, nil where there is no record, is what expected says.
func (s *Store) holds(expected port.Version, r *record) bool {
	if expected.Instance != "" && expected.Instance != s.instance {
		return false
	}
	if r == nil || expected.Revision == 0 {
		return r == nil && expected.Revision == 0
	}
	return r.revision == expected.Revision && r.nonce == expected.Nonce
}

// next is the record that follows on version at.
func next(at port.Version, nonce string, body []byte) record {
	return record{revision: at.Revision + 1, nonce: nonce, body: own(body)}
}

func (s *Store) version(r *record) port.Version {
	return port.Version{Instance: s.instance, Revision: r.revision, Nonce: r.nonce}
}

func (s *Store) absent() port.Record {
	return port.Record{Version: port.Version{Instance: s.instance}}
}

// read copies r out, without its body when the reader knows it.
func (s *Store) read(r *record, known port.Version) port.Record {
	out := port.Record{Version: s.version(r)}
	if out.Version != known {
		out.Body = own(r.body)
	}
	return out
}

// own copies b and is never nil, because a nil body means something else.
func own(b []byte) []byte {
	return append([]byte{}, b...)
}

// state is the group's record, nil where there is no group.
func (g *group) state() *record {
	if g == nil {
		return nil
	}
	return &g.record
}

// unchanged reports whether every stamp still has the value relied on.
func (g *group) unchanged(relied []port.Stamp) bool {
	for _, stamp := range relied {
		value := ""
		if g != nil {
			value = g.stamps[stamp.Life]
		}
		if value != stamp.Value {
			return false
		}
	}
	return true
}

func (g *group) write(stamps []port.Stamp, reports []port.Report) {
	for _, stamp := range stamps {
		if stamp.Value == "" {
			delete(g.stamps, stamp.Life)
			continue
		}
		g.stamps[stamp.Life] = stamp.Value
	}
	for _, report := range reports {
		g.reports[report.Life] = own(report.Body)
	}
}
