package sql

import (
	"context"
	dbsql "database/sql"
	"errors"
	"slices"
	"strings"

	"github.com/redis-stream-coordinator/rsc/core/port"
)

// LoadGroup implements port.Store, in one statement.
func (s *Store) LoadGroup(ctx context.Context, key port.GroupKey, known port.Version) (port.GroupRecord, error) {
	if ctx.Err() != nil {
		return port.GroupRecord{}, context.Cause(ctx)
	}
	ctx, done := s.bounded(ctx)
	defer done()
	var r port.GroupRecord
	err := s.again(ctx, func() (err error) {
		r, err = s.loadGroup(ctx, key, known)
		if err != nil {
			err = &unwritten{err: err}
		}
		return err
	})
	if err != nil {
		return port.GroupRecord{}, failed(ctx, "load group", key.String(), err)
	}
	return r, nil
}

func (s *Store) loadGroup(ctx context.Context, key port.GroupKey, known port.Version) (r port.GroupRecord, err error) {
	stream, group := []byte(key.Stream), []byte(key.Group)
	found := false
	err = each(ctx, s.db, func(scan func(...any) error) error {
		var stamp bool
		var revision int64
		var instance, name, content []byte
		if err := scan(&stamp, &instance, &revision, &name, &content); err != nil {
			return err
		}
		if stamp {
			if r.Stamps == nil {
				r.Stamps = make(map[string]string)
			}
			r.Stamps[string(name)] = string(content)
			return nil
		}
		if instance == nil {
			return errNoInstance
		}
		found = true
		var err error
		r.Record, err = recordOf(instance, revision, name, content, known)
		return err
	}, s.sql.loadGroup, known.Revision, []byte(known.Nonce), []byte(known.Instance), stream, group, stream, group)
	if err == nil && !found {
		err = errNoInstance
	}
	return r, err
}

// recordOf makes a record of what was read. A body that is missing is one that the
// caller knows, or that is empty: there are drivers that do not tell NULL from nothing.
func recordOf(instance []byte, revision int64, nonce, body []byte, known port.Version) (port.Record, error) {
	r := port.Record{Version: port.Version{Instance: string(instance), Revision: revision, Nonce: string(nonce)}}
	switch {
	case revision < 0:
		return port.Record{}, corrupt("its revision is below 1")
	case revision > 0 && r.Version != known:
		r.Body = notNil(body)
	}
	return r, nil
}

// held is a record whose row is locked.
type held struct {
	id      int64
	there   bool
	version port.Version
}

// hold locks a row and looks whether it is at the expected version.
func (t *tx) hold(ctx context.Context, expected port.Version, text string, names ...any) (held, error) {
	var h held
	var nonce, instance []byte
	err := t.conn.QueryRowContext(ctx, text, names...).Scan(&h.id, &h.version.Revision, &nonce, &instance)
	switch {
	case err == nil:
		h.there, h.version.Nonce = true, string(nonce)
	case errors.Is(err, dbsql.ErrNoRows):
		if err := t.conn.QueryRowContext(ctx, t.sql.instance).Scan(&instance); err != nil {
			return held{}, err
		}
	default:
		return held{}, err
	}
	if instance == nil {
		return held{}, errNoInstance
	}
	h.version.Instance = string(instance)
	want := expected
	if want.Instance == "" {
		want.Instance = h.version.Instance
	}
	if expected.Revision == 0 {
		want.Nonce = "" // of a record that is not there it says nothing
	}
	if h.version != want {
		return held{}, port.ErrConflict
	}
	return h, nil
}

// SaveGroup implements port.Store.
func (s *Store) SaveGroup(ctx context.Context, key port.GroupKey, save port.GroupSave) (port.Version, error) {
	if err := s.checkWrite(ctx, save.Nonce, save.Body); err != nil {
		return port.Version{}, err
	}
	changes, err := changesOf(save.Stamps, save.Reports, save.Ended)
	if err = errors.Join(err, checkNames(key.Stream, key.Group, save.Nonce)); err != nil {
		return port.Version{}, failed(ctx, "save group", key.String(), err)
	}
	ctx, done := s.bounded(ctx)
	defer done()
	var v port.Version
	err = s.transact(ctx, true, func(ctx context.Context, t *tx) error {
		h, err := t.saveGroup(ctx, key, save)
		if err != nil {
			return err
		}
		v = port.Version{Instance: h.version.Instance, Revision: save.Expected.Revision + 1, Nonce: save.Nonce}
		if err := t.write(ctx, h.id, changes); err != nil {
			return err
		}
		return t.announce(ctx, port.Change{Key: key, Revision: v.Revision, Nonce: v.Nonce})
	})
	if err != nil {
		return port.Version{}, failed(ctx, "save group", key.String(), err)
	}
	return v, nil
}

// saveGroup writes the row of a group, if all conditions hold.
func (t *tx) saveGroup(ctx context.Context, key port.GroupKey, save port.GroupSave) (held, error) {
	stream, group := []byte(key.Stream), []byte(key.Group)
	h, err := t.hold(ctx, save.Expected, t.sql.lockGroup, stream, group)
	if err != nil {
		return held{}, err
	}
	if err := t.compare(ctx, h, save.Relied); err != nil {
		return held{}, err
	}
	if h.there {
		_, err := t.exec(ctx, t.sql.saveGroup, save.Expected.Revision+1, []byte(save.Nonce), notNil(save.Body), save.SchemaVersion, save.UpdatedAt, h.id)
		return h, err
	}
	n, err := t.exec(ctx, t.sql.newGroup, stream, group, []byte(save.Nonce), notNil(save.Body), save.SchemaVersion, save.UpdatedAt)
	if err != nil {
		return held{}, err
	}
	if n == 0 {
		return held{}, port.ErrConflict // somebody was faster
	}
	return h, t.conn.QueryRowContext(ctx, t.sql.groupID, stream, group).Scan(&h.id)
}

// compare looks whether stamps are still what a save relies on.
func (t *tx) compare(ctx context.Context, h held, relied []port.Stamp) (err error) {
	if len(relied) == 0 {
		return nil
	}
	stamps := map[string]string{}
	if h.there {
		if stamps, err = texts(ctx, t.conn, t.sql.stamps, h.id); err != nil {
			return err
		}
	}
	for _, one := range relied {
		if stamps[one.Life] != one.Value {
			return port.ErrConflict
		}
	}
	return nil
}

// write writes what lies beside a group.
func (t *tx) write(ctx context.Context, group int64, c lifeChanges) error {
	if len(c.write) > 0 {
		if err := t.dialect.lives.upsert(ctx, t, group, c.write); err != nil {
			return err
		}
	}
	if len(c.unstamped) > 0 {
		if err := t.dialect.lives.unstamp(ctx, t, group, c.unstamped); err != nil {
			return err
		}
	}
	if len(c.ended) > 0 {
		return t.dialect.lives.remove(ctx, t, group, c.ended)
	}
	return nil
}

// RenewGroup implements port.Store, in one round trip unless stamps are removed.
func (s *Store) RenewGroup(ctx context.Context, key port.GroupKey, r port.Renewal) error {
	if err := checkExists(ctx, r.Expected); err != nil {
		return err
	}
	changes, err := changesOf(r.Stamps, r.Reports, nil)
	if err != nil {
		return failed(ctx, "renew group", key.String(), err)
	}
	ctx, done := s.bounded(ctx)
	defer done()
	if s.dialect.renew != nil && len(changes.unstamped) == 0 && len(changes.write) <= maxRenewal {
		err = s.again(ctx, func() error { return s.dialect.renew(ctx, s, key, r.Expected, changes) })
	} else {
		err = s.transact(ctx, false, func(ctx context.Context, t *tx) error {
			h, err := t.hold(ctx, r.Expected, t.sql.lockGroup, []byte(key.Stream), []byte(key.Group))
			if err != nil {
				return err
			}
			return t.write(ctx, h.id, changes)
		})
	}
	return failed(ctx, "renew group", key.String(), err)
}

// maxRenewal is how many rows a renewal writes in one statement.
const maxRenewal = 512

// DeleteGroup implements port.Store.
func (s *Store) DeleteGroup(ctx context.Context, key port.GroupKey, expected port.Version) error {
	if err := checkExists(ctx, expected); err != nil {
		return err
	}
	ctx, done := s.bounded(ctx)
	defer done()
	err := s.transact(ctx, true, func(ctx context.Context, t *tx) error {
		h, err := t.hold(ctx, expected, t.sql.lockGroup, []byte(key.Stream), []byte(key.Group))
		if err != nil {
			return err
		}
		for _, text := range []string{t.sql.deleteLives, t.sql.deleteGroup} {
			if _, err := t.exec(ctx, text, h.id); err != nil {
				return err
			}
		}
		return t.announce(ctx, port.Change{Key: key})
	})
	return failed(ctx, "delete group", key.String(), err)
}

// ListGroups implements port.Store.
func (s *Store) ListGroups(ctx context.Context) ([]port.GroupKey, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	ctx, done := s.bounded(ctx)
	defer done()
	var list []port.GroupKey
	err := each(ctx, s.db, func(scan func(...any) error) error {
		var stream, group []byte
		if err := scan(&stream, &group); err != nil {
			return err
		}
		list = append(list, port.GroupKey{Stream: string(stream), Group: string(group)})
		return nil
	}, s.sql.listGroups)
	if err != nil {
		return nil, failed(ctx, "list", "groups", err)
	}
	slices.SortFunc(list, func(a, b port.GroupKey) int {
		if c := strings.Compare(a.Stream, b.Stream); c != 0 {
			return c
		}
		return strings.Compare(a.Group, b.Group)
	})
	return list, nil
}

// Reports implements port.Store.
func (s *Store) Reports(ctx context.Context, key port.GroupKey) (map[string][]byte, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	ctx, done := s.bounded(ctx)
	defer done()
	found, err := texts(ctx, s.db, s.sql.reports, []byte(key.Stream), []byte(key.Group))
	if err != nil {
		return nil, failed(ctx, "read the reports of group", key.String(), err)
	}
	reports := make(map[string][]byte, len(found))
	for life, body := range found {
		reports[life] = []byte(body)
	}
	return reports, nil
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
