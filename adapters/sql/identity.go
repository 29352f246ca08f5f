package sql

import (
	"context"
	"crypto/rand"
	dbsql "database/sql"
	"errors"

	"github.com/redis-stream-coordinator/rsc/core/port"
)

// Identity implements port.Store. Tables that somebody has dropped are made again.
func (s *Store) Identity(ctx context.Context, known string) (port.Identity, error) {
	if ctx.Err() != nil {
		return port.Identity{}, context.Cause(ctx)
	}
	ctx, done := s.bounded(ctx)
	defer done()
	id, err := s.identity(ctx, known)
	if s.dropped(err) && s.migrate(ctx) == nil {
		id, err = s.identity(ctx, known)
	}
	return id, failed(ctx, "identify", "the metadata store", err)
}

func (s *Store) identity(ctx context.Context, known string) (port.Identity, error) {
	id, err := s.readIdentity(ctx, s.db)
	if err == nil && (known == "" || known == id.ID || id.Emptied) {
		return id, nil
	}
	if err != nil && !errors.Is(err, dbsql.ErrNoRows) {
		return port.Identity{}, err
	}
	err = s.transact(ctx, true, func(ctx context.Context, t *tx) error {
		if _, err := t.exec(ctx, s.sql.drawIdentity, []byte(rand.Text())); err != nil {
			return err
		}
		if id, err = s.readIdentity(ctx, t.conn); err != nil {
			return err
		}
		if known == "" || known == id.ID || id.Emptied {
			return nil
		}
		id.Emptied = true
		_, err := t.exec(ctx, s.sql.emptied)
		return err
	})
	if err != nil {
		return port.Identity{}, err
	}
	return id, nil
}

func (s *Store) readIdentity(ctx context.Context, from queryer) (port.Identity, error) {
	var id []byte
	var emptied int
	err := from.QueryRowContext(ctx, s.sql.identity).Scan(&id, &emptied)
	return port.Identity{ID: string(id), Emptied: emptied != 0}, err
}

// Ping implements port.Store.
func (s *Store) Ping(ctx context.Context) (string, error) {
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	ctx, done := s.bounded(ctx)
	defer done()
	var name []byte
	err := s.again(ctx, func() error {
		err := s.db.QueryRowContext(ctx, s.sql.instance).Scan(&name)
		if err == nil && name == nil {
			err = errNoInstance
		}
		if err != nil {
			return &unwritten{err: err}
		}
		return nil
	})
	if err != nil {
		return "", failed(ctx, "reach", "the metadata store", err)
	}
	return string(name), nil
}

// draw gives the instance a name where it has none.
func (s *Store) draw(ctx context.Context) error {
	return s.transact(ctx, true, func(ctx context.Context, t *tx) error {
		_, err := t.exec(ctx, s.sql.drawInstance, []byte(rand.Text()))
		return err
	})
}
