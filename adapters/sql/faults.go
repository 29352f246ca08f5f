package sql

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/redis-stream-coordinator/rsc/core/port"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// errNoNonce is a mistake of the caller: without a nonce nobody could tell
// whether a write whose answer was lost took place.
var errNoNonce = errors.New("a write needs a nonce")

// errNoInstance is met where the row of the instance is missing: the database was
// started, or emptied.
var errNoInstance = errors.New("the database has no instance yet")

// unwritten marks an error after which nothing was written, so that the call may be
// tried again.
type unwritten struct {
	err error
	// lost says that the connection ended before the transaction did: it has died in the
	// pool, as all have when the server was restarted, or the database has cut it off.
	lost bool
}

func (e *unwritten) Error() string { return e.err.Error() }
func (e *unwritten) Unwrap() error { return e.err }

// codeOf is the default of Config.Code.
func codeOf(err error) string {
	var state interface{ SQLState() string }
	if errors.As(err, &state) {
		return state.SQLState()
	}
	var number interface{ Code() int }
	if errors.As(err, &number) {
		return strconv.Itoa(number.Code())
	}
	return ""
}

// passing are the codes of what the database did not carry out because others were at
// work: deadlocks, serialisation failures, locks that were waited for too long.
var passing = map[Dialect][]string{
	Postgres: {"40001", "40P01", "55P03"},
	MySQL:    {"1020", "1205", "1213"},
}

// sqliteBusy and sqliteLocked are in the low byte of the codes of SQLite for that.
const (
	sqliteBusy   = 5
	sqliteLocked = 6
)

// passes reports whether an error is of others' work, and says so itself.
func (s *Store) passes(err error) bool {
	code := s.cfg.Code(err)
	if s.cfg.Dialect == SQLite {
		n, notANumber := strconv.Atoi(code)
		return notANumber == nil && (n&0xff == sqliteBusy || n&0xff == sqliteLocked)
	}
	return slices.Contains(passing[s.cfg.Dialect], code)
}

// inactive are the codes of a connection that the database had cut off before the
// statement came, as the transaction stood still for too long.
var inactive = map[Dialect]string{Postgres: "25P03", MySQL: "4031"}

// cutOff reports whether an error of COMMIT says that the connection was lost before, so
// that nothing was written. ErrBadConn does not: there are drivers that say it when the
// answer was lost.
func (s *Store) cutOff(err error) bool {
	code := s.cfg.Code(err)
	return code != "" && code == inactive[s.cfg.Dialect]
}

// mostLost is how often a transaction is tried whose connection ends. Each attempt takes
// a connection that has died out of the pool.
const mostLost = 3

// missing are the codes of a table that is not there. SQLite has none of its own for it.
var missing = map[Dialect]string{Postgres: "42P01", MySQL: "1146", SQLite: "1"}

// dropped reports whether an error may be that there are no tables.
func (s *Store) dropped(err error) bool {
	return err != nil && s.cfg.Code(err) == missing[s.cfg.Dialect]
}

// tryAgain reports whether the call that failed for the nth time is to be made again.
func (s *Store) tryAgain(err error, n int) bool {
	var nothing *unwritten
	if !errors.As(err, &nothing) || answered(err) {
		return false
	}
	return s.passes(err) || errors.Is(err, errNoInstance) || n < mostLost && (nothing.lost || errors.Is(err, driver.ErrBadConn))
}

// answered reports whether an error is an answer, which no other attempt makes better.
func answered(err error) bool {
	return errors.Is(err, port.ErrConflict) || errors.Is(err, port.ErrTooLarge)
}

// failed says what was tried on what; the errors of the port stay as they are.
func failed(ctx context.Context, what, name string, err error) error {
	switch {
	case err == nil, answered(err):
		return err
	case ctx.Err() != nil && !errors.Is(err, context.Cause(ctx)):
		// The driver says what it was doing; why it was stopped says more.
		return fmt.Errorf("%s %s: %w: %w", what, name, context.Cause(ctx), err)
	}
	return fmt.Errorf("%s %s: %w", what, name, err)
}

// corrupt is a record that no program of ours has written so.
func corrupt(what string) error {
	return protocol.ErrCorrupt.With("%s: restore the row from a backup, or delete it and create what it held again", what)
}

// checkWrite refuses what must not even be tried.
func (s *Store) checkWrite(ctx context.Context, nonce string, body []byte) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case nonce == "":
		return errNoNonce
	case len(body) > s.maxBody:
		return port.ErrTooLarge
	}
	return nil
}

// checkNames refuses what no column holds: a database that is not strict would cut it.
func checkNames(names ...string) error {
	for _, name := range names {
		if len(name) > maxNameBytes {
			return fmt.Errorf("a name of %d bytes is longer than the %d that the store takes", len(name), maxNameBytes)
		}
	}
	return nil
}
