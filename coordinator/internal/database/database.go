package database

import (
	"context"
	dbsql "database/sql"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"time"

	mysqldriver "github.com/go-sql-driver/mysql"

	"github.com/redis-stream-coordinator/rsc/adapters/sql"
)

// The pool of a server. What waits for a connection waits within the time of its call.
const (
	maxConnections = 32
	maxIdle        = 16
	maxIdleTime    = 2 * time.Minute
	dialTimeout    = 5 * time.Second
)

// Settings say where a database is.
type Settings struct {
	// Driver is the kind of database, as sql.Dialect; DSN names one.
	Driver, DSN string
	// TablePrefix begins the names of all tables. Empty means the adapter's default.
	TablePrefix string
	// Logger hears of what no caller can be told. Must not be nil.
	Logger *slog.Logger
}

// opened is a pool with what its driver knows.
type opened struct {
	pool   *dbsql.DB
	listen func(ctx context.Context, channel string, begun func(), heard func(payload string)) error
}

func open(s Settings) (opened, error) {
	switch sql.Dialect(s.Driver) {
	case sql.Postgres:
		return openPostgres(s.DSN)
	case sql.MySQL:
		return openMySQL(s.DSN)
	case sql.SQLite:
		return openSQLite(s.DSN)
	}
	return opened{}, fmt.Errorf("there is no driver %.40q: use %s, %s or %s", s.Driver, sql.Postgres, sql.MySQL, sql.SQLite)
}

// Open opens a store. Close the pool when nothing uses it any more.
// Errors: a name that is none, else what sql.Open says, see Unavailable.
func Open(ctx context.Context, s Settings) (*sql.Store, *dbsql.DB, error) {
	db, err := open(s)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrSettings, err)
	}
	store, err := sql.Open(ctx, sql.Config{
		DB: db.pool, Dialect: sql.Dialect(s.Driver), TablePrefix: s.TablePrefix, Code: Code, Listen: db.listen, Logger: s.Logger,
	})
	if err != nil {
		return nil, nil, errors.Join(err, db.pool.Close())
	}
	return store, db.pool, nil
}

// Code returns the code that a database gave to an error, see sql.Config.
func Code(err error) string {
	var m *mysqldriver.MySQLError
	if errors.As(err, &m) {
		return strconv.Itoa(int(m.Number))
	}
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

// ErrSettings says that a database was not even asked: the settings name none.
var ErrSettings = errors.New("the settings name no database")

// passing are the codes of a server that starts, ends, or is full of others.
var passing = []string{
	"57P01", "57P02", "57P03", "53300", "08000", "08001", "08003", "08004", "08006", // PostgreSQL
	"1040", "1053", // MySQL
	"5", // SQLite: another program is about it
}

// Unavailable reports whether an error of Open may be gone after a while, without
// anybody changing the settings. What a server says itself is not, as a rule.
func Unavailable(err error) bool {
	if errors.Is(err, ErrSettings) || errors.Is(err, sql.ErrSchema) {
		return false
	}
	code := Code(err)
	return code == "" || slices.Contains(passing, code)
}
