package sql

import (
	"context"
	dbsql "database/sql"
	"database/sql/driver"
	"errors"
	"math/rand/v2"
	"time"
)

const (
	// firstPause and longestPause lie between two attempts.
	firstPause   = time.Millisecond
	longestPause = 50 * time.Millisecond
	// mostAttempts bounds the attempts besides the time of the call.
	mostAttempts = 1000
	// firstStill is how long the first attempt at a transaction may stand still between
	// two statements before the database cuts it off: others wait for what it has locked.
	// Each further attempt may twice as long, up to longestStill, so that a program that
	// gets little of its processor, or has much to send, gets through all the same.
	firstStill   = time.Second
	longestStill = 4 * time.Second
	// farewell bounds what is said to a connection when a transaction is over.
	farewell = time.Second
)

// tx is a transaction under way.
type tx struct {
	*Store
	conn *dbsql.Conn
}

// exec carries out a statement and returns the number of rows that it counts.
func (t *tx) exec(ctx context.Context, text string, args ...any) (int64, error) {
	if size := t.dialect.prepareFrom; size > 0 && biggest(args) >= size {
		return t.execPrepared(ctx, text, args)
	}
	result, err := t.conn.ExecContext(ctx, text, args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

func (t *tx) execPrepared(ctx context.Context, text string, args []any) (n int64, err error) {
	statement, err := t.conn.PrepareContext(ctx, text)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, statement.Close()) }()
	result, err := statement.ExecContext(ctx, args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// biggest is the size of the biggest argument.
func biggest(args []any) int {
	most := 0
	for _, arg := range args {
		if b, ok := arg.([]byte); ok {
			most = max(most, len(b))
		}
	}
	return most
}

// bounded returns a context for one call.
func (s *Store) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, s.cfg.Timeout, errTimeout)
}

var errTimeout = errors.New("the database did not answer in time")

// transact carries out a transaction. lasting says that it must be on the disk when it
// is confirmed. What was not carried out because of others' work is tried again.
func (s *Store) transact(ctx context.Context, lasting bool, do func(ctx context.Context, t *tx) error) error {
	still, longest := firstStill, longestStill
	if s.cfg.still > 0 {
		still, longest = s.cfg.still, s.cfg.still
	}
	return s.again(ctx, func() error {
		if s.dialect.oneWriter {
			select {
			case s.writing <- struct{}{}:
				defer func() { <-s.writing }()
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		defer func() { still = min(2*still, longest) }()
		return s.attempt(ctx, lasting, still, do)
	})
}

// again makes a call until it succeeds, fails for good, or ctx ends.
func (s *Store) again(ctx context.Context, call func() error) error {
	pause := firstPause
	for n := 1; ; n++ {
		err := call()
		if err == nil || n == mostAttempts || !s.tryAgain(err, n) {
			return err
		}
		if errors.Is(err, errNoInstance) {
			if err := s.draw(ctx); err != nil {
				return err
			}
		}
		select {
		case <-time.After(pause/2 + rand.N(pause)):
			pause = min(2*pause, longestPause)
		case <-ctx.Done():
			return err
		}
	}
}

// attempt carries out a transaction once, which may stand still for so long. An error
// that is not marked as unwritten leaves open what became of it.
func (s *Store) attempt(ctx context.Context, lasting bool, still time.Duration, do func(ctx context.Context, t *tx) error) error {
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return &unwritten{err: err, lost: true}
	}
	defer func() { _ = conn.Close() }() // it goes back to the pool, or was given up
	for _, text := range s.dialect.begin(lasting, still) {
		if _, err := conn.ExecContext(ctx, text); err != nil {
			s.abandon(ctx, conn)
			return &unwritten{err: err, lost: true}
		}
	}
	if err := do(ctx, &tx{Store: s, conn: conn}); err != nil {
		return &unwritten{err: err, lost: !s.abandon(ctx, conn) && !s.dialect.embedded}
	}
	if _, err := conn.ExecContext(ctx, "COMMIT"); err != nil {
		s.abandon(ctx, conn)
		if s.cutOff(err) {
			return &unwritten{err: err, lost: true}
		}
		return err
	}
	s.leave(ctx, conn, s.dialect.after)
	return nil
}

// abandon rolls a transaction back, also when ctx has ended. A connection on which that
// fails is given up, and the database rolls back for itself: then it returns false.
func (s *Store) abandon(ctx context.Context, conn *dbsql.Conn) bool {
	return s.leave(ctx, conn, "ROLLBACK", s.dialect.after)
}

// leave brings a connection in order before it goes back to the pool, also when ctx has
// ended, or gives it up and returns false.
func (s *Store) leave(ctx context.Context, conn *dbsql.Conn, texts ...string) bool {
	ctx, done := context.WithTimeout(context.WithoutCancel(ctx), farewell)
	defer done()
	for _, text := range texts {
		if text == "" {
			continue
		}
		if _, err := conn.ExecContext(ctx, text); err != nil {
			// With this error a connection is closed and does not come back to the pool.
			_ = conn.Raw(func(any) error { return driver.ErrBadConn })
			return false
		}
	}
	return true
}
