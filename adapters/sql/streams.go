package sql

import (
	"context"
	"slices"

	"github.com/redis-stream-coordinator/rsc/core/port"
)

// LoadStream implements port.Store.
func (s *Store) LoadStream(ctx context.Context, prefix string) (port.Record, error) {
	if ctx.Err() != nil {
		return port.Record{}, context.Cause(ctx)
	}
	ctx, done := s.bounded(ctx)
	defer done()
	var r port.Record
	err := s.again(ctx, func() error {
		var revision int64
		var instance, nonce, body []byte
		err := s.db.QueryRowContext(ctx, s.sql.loadStream, []byte(prefix)).Scan(&instance, &revision, &nonce, &body)
		if err == nil && instance == nil {
			err = errNoInstance
		}
		if err == nil {
			r, err = recordOf(instance, revision, nonce, body, port.Version{})
		}
		if err != nil {
			return &unwritten{err: err}
		}
		return nil
	})
	if err != nil {
		return port.Record{}, failed(ctx, "load stream", prefix, err)
	}
	return r, nil
}

// SaveStream implements port.Store.
func (s *Store) SaveStream(ctx context.Context, prefix string, save port.StreamSave) (port.Version, error) {
	err := s.checkWrite(ctx, save.Nonce, save.Body)
	if err == nil {
		err = checkNames(prefix, save.Nonce)
	}
	if err != nil {
		return port.Version{}, failed(ctx, "save stream", prefix, err)
	}
	ctx, done := s.bounded(ctx)
	defer done()
	var v port.Version
	err = s.transact(ctx, true, func(ctx context.Context, t *tx) error {
		h, err := t.hold(ctx, save.Expected, t.sql.lockStream, []byte(prefix))
		if err != nil {
			return err
		}
		v = port.Version{Instance: h.version.Instance, Revision: save.Expected.Revision + 1, Nonce: save.Nonce}
		if h.there {
			_, err := t.exec(ctx, t.sql.saveStream, v.Revision, []byte(v.Nonce), notNil(save.Body), []byte(prefix))
			return err
		}
		n, err := t.exec(ctx, t.sql.newStream, []byte(prefix), []byte(v.Nonce), notNil(save.Body))
		if err == nil && n == 0 {
			err = port.ErrConflict // somebody was faster
		}
		return err
	})
	if err != nil {
		return port.Version{}, failed(ctx, "save stream", prefix, err)
	}
	return v, nil
}

// DeleteStream implements port.Store.
func (s *Store) DeleteStream(ctx context.Context, prefix string, expected port.Version) error {
	if err := checkExists(ctx, expected); err != nil {
		return err
	}
	ctx, done := s.bounded(ctx)
	defer done()
	err := s.transact(ctx, true, func(ctx context.Context, t *tx) error {
		_, err := t.hold(ctx, expected, t.sql.lockStream, []byte(prefix))
		if err == nil {
			_, err = t.exec(ctx, t.sql.deleteStream, []byte(prefix))
		}
		return err
	})
	return failed(ctx, "delete stream", prefix, err)
}

// ListStreams implements port.Store.
func (s *Store) ListStreams(ctx context.Context) ([]string, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	ctx, done := s.bounded(ctx)
	defer done()
	var list []string
	err := each(ctx, s.db, func(scan func(...any) error) error {
		var prefix []byte
		err := scan(&prefix)
		list = append(list, string(prefix))
		return err
	}, s.sql.listStreams)
	if err != nil {
		return nil, failed(ctx, "list", "streams", err)
	}
	slices.Sort(list)
	return list, nil
}
