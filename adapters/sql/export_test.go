package sql

import (
	"context"
	"strings"
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

// Unhurried lets transactions stand still for a minute before the database cuts them off:
// in tests that are not about that, on a machine that stands still for seconds.
func Unhurried(cfg Config) Config {
	cfg.still = time.Minute
	return cfg
}

// Dawdle writes the revision of a group in a transaction, and calls still before the
// transaction goes on: it is told which attempt this is, and how many seconds it may stand
// still by the database's word. more says that a statement follows, else it ends there.
func (s *Store) Dawdle(ctx context.Context, key port.GroupKey, revision int64, more bool, still func(attempt int, limit string)) (attempts int, err error) {
	limit := map[Dialect]string{Postgres: "SELECT current_setting('idle_in_transaction_session_timeout')", MySQL: "SELECT @@wait_timeout"}[s.cfg.Dialect]
	err = s.transact(ctx, true, func(ctx context.Context, t *tx) error {
		attempts++
		write := func() error {
			_, err := t.exec(ctx, s.text("UPDATE rsc_groups SET revision = ? WHERE stream = ? AND grp = ?"), revision, []byte(key.Stream), []byte(key.Group))
			return err
		}
		var seconds string
		if err := t.conn.QueryRowContext(ctx, limit).Scan(&seconds); err != nil {
			return err
		}
		if err := write(); err != nil {
			return err
		}
		still(attempts, strings.TrimSuffix(seconds, "s"))
		if !more {
			return nil
		}
		return write()
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
