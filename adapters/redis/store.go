package redis

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/redis-stream-coordinator/rsc/adapters/redis/internal/command"
	"github.com/redis-stream-coordinator/rsc/core/port"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// MaxBodyBytes is the largest body that a Store takes; a larger one is
// port.ErrTooLarge.
const MaxBodyBytes = protocol.MaxAggregateBytes

// errNoNonce is a mistake of the caller: without a nonce nobody could tell
// whether a write whose answer was lost took place.
var errNoNonce = errors.New("a write needs a nonce")

// Store is a port.Store in Redis; open it with Client.Store. It is safe for
// concurrent use, also by many processes.
type Store struct {
	cmd  *command.Records
	keys layout
	log  *slog.Logger

	// parts show on a Cluster that no server was emptied.
	parts []string
	// drawn is the id that this store would give, or has given and not told yet.
	mu    sync.Mutex
	drawn string
}

var _ port.Store = (*Store)(nil)

// LoadGroup implements port.Store. It takes one round trip, and more only where
// a record may be under a key of the old form: for a group that does not exist
// and has one of : { } % in its name, or that such a program wrote.
func (s *Store) LoadGroup(ctx context.Context, key port.GroupKey, known port.Version) (port.GroupRecord, error) {
	r, err := s.cmd.LoadGroup(ctx, s.keys.group(key), known)
	if err == nil && s.inOldForm(key, r) {
		r, err = s.loadFromOldForm(ctx, key, known, r)
	}
	if err != nil {
		return port.GroupRecord{}, failed("load group", key.String(), err)
	}
	return r, nil
}

// SaveGroup implements port.Store. It takes one round trip, and three for the
// first save of a group.
func (s *Store) SaveGroup(ctx context.Context, key port.GroupKey, save port.GroupSave) (port.Version, error) {
	keys := s.keys.group(key)
	err := checkWrite(save.Nonce, save.Body)
	if err == nil && save.Expected.Revision == 0 {
		// First the index: if we die in between, a list passes over a name that
		// stands for nothing, but would never show a group that it lacks.
		err = s.cmd.Index(ctx, s.keys.groups(), keys.Metadata)
	}
	var v port.Version
	if err == nil {
		v, err = s.cmd.SaveGroup(ctx, keys, save, s.announce(keys, save.Expected.Revision+1, save.Nonce))
	}
	if err != nil {
		return port.Version{}, failed("save group", key.String(), err)
	}
	if save.Expected.Revision == 0 {
		s.indexAgain(ctx, s.keys.groups(), keys.Metadata)
	}
	return v, nil
}

// RenewGroup implements port.Store.
func (s *Store) RenewGroup(ctx context.Context, key port.GroupKey, r port.Renewal) error {
	if err := checkExists(ctx, r.Expected); err != nil {
		return err
	}
	return failed("renew group", key.String(), s.cmd.RenewGroup(ctx, s.keys.group(key), r))
}

// DeleteGroup implements port.Store.
func (s *Store) DeleteGroup(ctx context.Context, key port.GroupKey, expected port.Version) error {
	if err := checkExists(ctx, expected); err != nil {
		return err
	}
	keys := s.keys.group(key)
	err := s.removeOld(ctx, key)
	if err == nil {
		err = s.cmd.DeleteGroup(ctx, keys, expected, s.announce(keys, 0, ""))
	}
	if err != nil {
		return failed("delete group", key.String(), err)
	}
	s.unindex(ctx, s.keys.groups(), keys.Metadata)
	return nil
}

// ListGroups implements port.Store.
func (s *Store) ListGroups(ctx context.Context) ([]port.GroupKey, error) {
	list, err := s.listGroups(ctx)
	if err != nil {
		return nil, failed("list", "groups", err)
	}
	return list, nil
}

func (s *Store) listGroups(ctx context.Context) ([]port.GroupKey, error) {
	names, found, err := s.indexed(ctx, s.keys.groups())
	if err != nil {
		return nil, err
	}
	list := make([]port.GroupKey, 0, len(names))
	for i, name := range names {
		key, ok := s.keys.parseGroup(name)
		if !ok || !found[i].Exists {
			continue
		}
		if !found[i].HasNonce && s.keys.ambiguous(name) {
			if key, err = s.oldNames(ctx, name, key); err != nil {
				return nil, err
			}
		}
		list = append(list, key)
	}
	slices.SortFunc(list, compareKeys)
	return slices.Compact(list), nil
}

func compareKeys(a, b port.GroupKey) int {
	if c := strings.Compare(a.Stream, b.Stream); c != 0 {
		return c
	}
	return strings.Compare(a.Group, b.Group)
}

// Reports implements port.Store.
func (s *Store) Reports(ctx context.Context, key port.GroupKey) (map[string][]byte, error) {
	reports, err := s.cmd.Reports(ctx, s.keys.group(key))
	if err != nil {
		return nil, failed("read the reports of group", key.String(), err)
	}
	return reports, nil
}

// LoadStream implements port.Store.
func (s *Store) LoadStream(ctx context.Context, prefix string) (port.Record, error) {
	r, err := s.cmd.LoadStream(ctx, s.keys.stream(prefix))
	if err != nil {
		return port.Record{}, failed("load stream", prefix, err)
	}
	return r, nil
}

// SaveStream implements port.Store. It takes one round trip, and three for the
// first save of a stream.
func (s *Store) SaveStream(ctx context.Context, prefix string, save port.StreamSave) (port.Version, error) {
	key := s.keys.stream(prefix)
	err := checkWrite(save.Nonce, save.Body)
	if err == nil && save.Expected.Revision == 0 {
		err = s.cmd.Index(ctx, s.keys.streams(), key) // first, as in SaveGroup
	}
	var v port.Version
	if err == nil {
		v, err = s.cmd.SaveStream(ctx, key, save)
	}
	if err != nil {
		return port.Version{}, failed("save stream", prefix, err)
	}
	if save.Expected.Revision == 0 {
		s.indexAgain(ctx, s.keys.streams(), key)
	}
	return v, nil
}

// DeleteStream implements port.Store.
func (s *Store) DeleteStream(ctx context.Context, prefix string, expected port.Version) error {
	if err := checkExists(ctx, expected); err != nil {
		return err
	}
	key := s.keys.stream(prefix)
	if err := s.cmd.DeleteStream(ctx, key, expected); err != nil {
		return failed("delete stream", prefix, err)
	}
	s.unindex(ctx, s.keys.streams(), key)
	return nil
}

// ListStreams implements port.Store.
func (s *Store) ListStreams(ctx context.Context) ([]string, error) {
	names, found, err := s.indexed(ctx, s.keys.streams())
	if err != nil {
		return nil, failed("list", "streams", err)
	}
	list := make([]string, 0, len(names))
	for i, name := range names {
		if prefix, ok := s.keys.tag(name, streamSuffix); ok && found[i].Exists {
			list = append(list, prefix)
		}
	}
	slices.Sort(list)
	return list, nil
}

// Identity implements port.Store. On a Cluster, the store counts as emptied when one
// of the servers was.
func (s *Store) Identity(ctx context.Context, known string) (port.Identity, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ask := s.storeID(s.drawn)
	ask.Known = known
	id, emptied, err := s.cmd.StoreID(ctx, ask)
	if err != nil {
		return port.Identity{}, failed("identify", "the metadata store", err)
	}
	if id == s.drawn {
		// Another one is drawn if the store is emptied again.
		s.drawn = rand.Text()
	}
	return port.Identity{ID: id, Emptied: emptied}, nil
}

func (s *Store) storeID(drawn string) command.StoreID {
	return command.StoreID{Key: s.keys.storeID(), Parts: s.parts, Drawn: drawn}
}

// Ping implements port.Store. On a Cluster it reaches the server that holds the
// store's id.
func (s *Store) Ping(ctx context.Context) (string, error) {
	instance, err := s.cmd.Instance(ctx, s.keys.storeID())
	if err != nil {
		return "", failed("reach", "the metadata store", err)
	}
	return instance, nil
}

// indexed returns the names in an index set and what is behind them.
func (s *Store) indexed(ctx context.Context, set string) ([]string, []command.Presence, error) {
	names, err := s.cmd.Indexed(ctx, set)
	if err != nil {
		return nil, nil, err
	}
	found, err := s.cmd.Presences(ctx, names)
	return names, found, err
}

// unindex takes the name of a deleted record out of an index. The record is
// gone whatever becomes of that, and lists pass over the name.
func (s *Store) unindex(ctx context.Context, set, key string) {
	if err := s.cmd.Unindex(ctx, set, key); err != nil {
		s.log.WarnContext(ctx, "a deleted record's name may stay in the index", "index", set, "key", key, "err", err)
	}
}

// indexAgain adds the name of a record that was just created once more: before the
// creation, somebody may have taken it for the name of a record that is gone.
func (s *Store) indexAgain(ctx context.Context, set, key string) {
	if err := s.cmd.Index(ctx, set, key); err != nil {
		s.log.WarnContext(ctx, "a new record's name may be missing in the index: repair it if it is", "index", set, "key", key, "err", err)
	}
}

// checkWrite refuses what must not even be tried.
func checkWrite(nonce string, body []byte) error {
	switch {
	case nonce == "":
		return errNoNonce
	case len(body) > MaxBodyBytes:
		return port.ErrTooLarge
	}
	return nil
}

// checkExists refuses a condition that no record fulfils.
func checkExists(ctx context.Context, expected port.Version) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if expected.Revision == 0 {
		return port.ErrConflict
	}
	return nil
}

// failed says what was tried on what; the errors of the port stay as they are.
func failed(what, name string, err error) error {
	var damage *command.DamageError
	switch {
	case err == nil, errors.Is(err, port.ErrConflict), errors.Is(err, port.ErrTooLarge):
		return err
	case errors.As(err, &damage):
		return fmt.Errorf("%s %s: %w", what, name,
			protocol.ErrCorrupt.With("%v: restore the key from a backup, or delete it and create what it held again", damage))
	}
	return fmt.Errorf("%s %s: %w", what, name, err)
}
