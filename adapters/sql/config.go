package sql

import (
	"context"
	dbsql "database/sql"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// The defaults of Config.
const (
	DefaultTablePrefix = "rsc_"
	DefaultTimeout     = 3 * time.Second
)

// The bounds of Config.
const (
	minTimeout = 10 * time.Millisecond
	maxTimeout = time.Minute
)

// MaxBodyBytes is the largest body that a Store takes, unless the database takes
// less; a larger one is port.ErrTooLarge.
const MaxBodyBytes = protocol.MaxAggregateBytes

// maxNameBytes bounds what is part of a key: names, incarnations, stamps and nonces.
const maxNameBytes = 512

// Dialect is the kind of database.
type Dialect string

// The dialects.
const (
	// Postgres is PostgreSQL 12 or later.
	Postgres Dialect = "postgres"
	// MySQL is MySQL 8 or MariaDB 10.5, or later.
	MySQL Dialect = "mysql"
	// SQLite is a file, SQLite 3.35 or later.
	SQLite Dialect = "sqlite"
)

// Config says where the records are and how to speak to the database there.
type Config struct {
	// DB is the database, opened with a driver for Dialect. It belongs to the caller,
	// who closes it after the last call. Must not be nil.
	DB *dbsql.DB
	// Dialect is the kind of database. Must be set.
	Dialect Dialect
	// TablePrefix begins the name of each table: small letters, digits and
	// underscores, a letter first, at most 32. Stores with different ones share
	// nothing but the database.
	//
	// Defaults to rsc_.
	TablePrefix string
	// Timeout bounds each call. A call's context can only shorten it.
	//
	// Defaults to 3 s.
	Timeout time.Duration
	// Code returns the code that the database gave to an error: SQLSTATE on
	// PostgreSQL, the number on the others; empty for an error of another kind.
	//
	// Defaults to what methods SQLState or Code of the error say, which those of some
	// drivers have.
	Code func(err error) string
	// Listen listens to a channel of PostgreSQL on a connection of its own, until ctx
	// ends or the connection breaks. It calls begun once it listens, and heard for
	// each notification. nil where that cannot be done: then Store.Signal is nil.
	Listen func(ctx context.Context, channel string, begun func(), heard func(payload string)) error
	// Logger hears of what no caller can be told.
	//
	// Defaults to none.
	Logger *slog.Logger

	// still replaces firstStill and longestStill, for tests. 0 leaves them.
	still time.Duration
}

var tablePrefixes = regexp.MustCompile(`^[a-z][a-z0-9_]{0,31}$`)

func (c Config) withDefaults() Config {
	if c.TablePrefix == "" {
		c.TablePrefix = DefaultTablePrefix
	}
	if c.Timeout == 0 {
		c.Timeout = DefaultTimeout
	}
	if c.Code == nil {
		c.Code = codeOf
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

func (c Config) validate() error {
	var bad []error
	complain := func(format string, args ...any) { bad = append(bad, fmt.Errorf(format, args...)) }
	if c.DB == nil {
		complain("DB is nil, must be an open database")
	}
	switch c.Dialect {
	case Postgres, MySQL, SQLite:
	default:
		complain("Dialect is %q, must be %s, %s or %s", c.Dialect, Postgres, MySQL, SQLite)
	}
	if !tablePrefixes.MatchString(c.TablePrefix) {
		complain("TablePrefix is %.40q, must be at most 32 small letters, digits and underscores, a letter first", c.TablePrefix)
	}
	if c.Timeout < minTimeout || c.Timeout > maxTimeout {
		complain("Timeout is %s, must be between %s and %s", c.Timeout, minTimeout, maxTimeout)
	}
	if c.Listen != nil && c.Dialect != Postgres {
		complain("Listen is set, but only %s has channels to listen to", Postgres)
	}
	return errors.Join(bad...)
}
