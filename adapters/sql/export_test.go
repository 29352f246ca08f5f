package sql

import (
	"context"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/port"
)

// Hold locks a group in a transaction, as a save does, and calls do before it goes on.
func (s *Store) Hold(ctx context.Context, key port.GroupKey, do func()) error {
	return s.attempt(ctx, true, firstStill, func(ctx context.Context, t *tx) error {
		var h held
		var nonce, instance []byte
		err := t.conn.QueryRowContext(ctx, t.sql.lockGroup, []byte(key.Stream), []byte(key.Group)).Scan(&h.id, &h.version.Revision, &nonce, &instance)
		if err != nil {
			return err
		}
		do()
		_, err = t.exec(ctx, t.sql.saveGroup, h.version.Revision+1, []byte("late"), []byte("late"), 0, "", h.id)
		return err
	})
}

// Dawdle writes the revision of a group in a transaction that stands still in between.
func (s *Store) Dawdle(ctx context.Context, key port.GroupKey, revision int64, still time.Duration) (attempts int, err error) {
	err = s.transact(ctx, true, func(ctx context.Context, t *tx) error {
		attempts++
		time.Sleep(still)
		_, err := t.exec(ctx, s.text("UPDATE rsc_groups SET revision = ? WHERE stream = ? AND grp = ?"), revision, []byte(key.Stream), []byte(key.Group))
		return err
	})
	return attempts, err
}

// SetSchema pretends that the tables have a version.
func (s *Store) SetSchema(ctx context.Context, version int) error {
	return s.transact(ctx, true, func(ctx context.Context, t *tx) error {
		_, err := t.exec(ctx, s.text("INSERT INTO rsc_schema (version, applied_at) VALUES (?, '')"), version)
		return err
	})
}

// Damage spoils the revision of a group.
func (s *Store) Damage(ctx context.Context, key port.GroupKey) error {
	return s.transact(ctx, true, func(ctx context.Context, t *tx) error {
		_, err := t.exec(ctx, s.text("UPDATE rsc_groups SET revision = -7 WHERE stream = ? AND grp = ?"), []byte(key.Stream), []byte(key.Group))
		return err
	})
}

// DropTables removes all tables of the store.
func (s *Store) DropTables(ctx context.Context) error {
	for _, name := range []string{"store", "instance", "groups", "lives", "streams", "audit", "schema"} {
		if _, err := s.db.ExecContext(ctx, s.text("DROP TABLE rsc_"+name)); err != nil {
			return err
		}
	}
	return nil
}
