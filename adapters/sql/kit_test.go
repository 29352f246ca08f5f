package sql_test

import (
	"context"
	dbsql "database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	mysqldriver "github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver of PostgreSQL
	_ "modernc.org/sqlite"             // the driver of SQLite

	"github.com/redis-stream-coordinator/rsc/adapters/sql"
	"github.com/redis-stream-coordinator/rsc/adapters/sql/sqltest"
	"github.com/redis-stream-coordinator/rsc/core/port"
	"github.com/redis-stream-coordinator/rsc/core/port/porttest"
)

const (
	// patience bounds the calls of these tests; nothing takes that long.
	patience = time.Minute
	// longest bounds what is waited for. Whoever listens tries again after half a minute
	// at worst, and a server may take long to start.
	longest = 3 * time.Minute
)

// code is what the wired program passes as Config.Code.
func code(err error) string {
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

// dialects of the kinds of servers.
var dialects = map[sqltest.Kind]sql.Dialect{sqltest.Postgres: sql.Postgres, sqltest.MariaDB: sql.MySQL}

// database opens a pool on a server's URL.
func database(tb testing.TB, kind sqltest.Kind, address string) *dbsql.DB {
	tb.Helper()
	var db *dbsql.DB
	var err error
	if kind == sqltest.Postgres {
		db, err = dbsql.Open("pgx", address)
	} else {
		var u *url.URL
		if u, err = url.Parse(address); err != nil {
			tb.Fatal(err)
		}
		c := mysqldriver.NewConfig()
		c.Net, c.Addr, c.User, c.DBName = "tcp", u.Host, u.User.Username(), u.Path[1:]
		c.InterpolateParams, c.Logger = true, &mysqldriver.NopLogger{}
		c.Params = map[string]string{}
		for name, values := range u.Query() {
			c.Params[name] = values[0]
		}
		conn, failure := mysqldriver.NewConnector(c)
		if err = failure; err == nil {
			db = dbsql.OpenDB(conn)
		}
	}
	if err != nil {
		tb.Fatal(err)
	}
	db.SetMaxIdleConns(20)
	tb.Cleanup(func() { _ = db.Close() })
	return db
}

// sqliteFile opens a pool on a file.
func sqliteFile(tb testing.TB, path string) *dbsql.DB {
	tb.Helper()
	db, err := dbsql.Open("sqlite", path)
	if err != nil {
		tb.Fatal(err)
	}
	db.SetMaxIdleConns(20)
	tb.Cleanup(func() {
		if err := db.Close(); err != nil {
			tb.Error(err)
		}
	})
	return db
}

var prefixes atomic.Int64

// freshPrefix returns a table prefix that no other store has.
func freshPrefix() string { return fmt.Sprintf("t%d_", prefixes.Add(1)) }

// open opens a store that has time enough on a busy machine.
func open(tb testing.TB, cfg sql.Config) *sql.Store {
	tb.Helper()
	return openHurried(tb, sql.Unhurried(cfg))
}

// openHurried opens a store whose transactions may stand still no longer than those of a
// coordinator.
func openHurried(tb testing.TB, cfg sql.Config) *sql.Store {
	tb.Helper()
	cfg.Code = code
	if cfg.Timeout == 0 {
		cfg.Timeout = patience
	}
	s, err := sql.Open(tb.Context(), cfg)
	if err != nil {
		tb.Fatalf("open the store: %v", err)
	}
	return s
}

// listenOn is the Config.Listen of a PostgreSQL.
func listenOn(address string) func(context.Context, string, func(), func(string)) error {
	return func(ctx context.Context, channel string, begun func(), heard func(string)) error {
		conn, err := pgx.Connect(ctx, address)
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
		if _, err := conn.Exec(ctx, "LISTEN "+pgx.Identifier{channel}.Sanitize()); err != nil {
			return err
		}
		begun()
		for {
			n, err := conn.WaitForNotification(ctx)
			if err != nil {
				return err
			}
			heard(n.Payload)
		}
	}
}

// suites runs the store suite, on tables of its own for each test.
func suites(t *testing.T, kind sqltest.Kind, address string) {
	t.Helper()
	db := database(t, kind, address)
	porttest.Store(t, func(t *testing.T) port.Store {
		return open(t, sql.Config{DB: db, Dialect: dialects[kind], TablePrefix: freshPrefix()})
	})
}

// place is a database that a test has tables of its own in.
type place struct {
	dialect sql.Dialect
	prefix  string
	// pool opens one.
	pool func() *dbsql.DB
}

func (p place) config() sql.Config {
	return sql.Unhurried(sql.Config{DB: p.pool(), Dialect: p.dialect, TablePrefix: p.prefix, Code: code, Timeout: patience})
}

// anywhere are tests on every kind of database.
var anywhere = map[string]func(*testing.T, place){
	"TablesAreMadeOnce":     testTablesAreMadeOnce,
	"NewerTablesAreRefused": testNewerTablesAreRefused,
	"DroppedTables":         testDroppedTables,
	"DamagedRecord":         testDamagedRecord,
	"Audit":                 testAudit,
	"WideRenewal":           testWideRenewal,
}

// beside are tests on a server that do it no harm, and sore those that do: they come one
// after the other.
var (
	beside = map[string]func(*testing.T, *sqltest.Server){
		"LostAnswerToCommit":    testLostAnswerToCommit,
		"LostBeforeCommit":      testLostBeforeCommit,
		"WriterThatStandsStill": testWriterThatStandsStill,
		"SlowWriter":            testSlowWriter,
		"StillBeforeCommit":     testStillBeforeCommit,
		"CutConnections":        testCutConnections,
	}
	sore = map[string]func(*testing.T, *sqltest.Server){
		"RestartIsAnotherInstance": testRestartIsAnotherInstance,
		"PowerCut":                 testPowerCut,
		"FrozenServer":             testFrozenServer,
		"SignalComesBack":          testSignalComesBack,
	}
)

// onServer runs the tests on one server.
func onServer(t *testing.T, s *sqltest.Server) {
	t.Helper()
	t.Run("Beside", func(t *testing.T) {
		for name, test := range anywhere {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(t, place{dialects[s.Kind], freshPrefix(), func() *dbsql.DB { return database(t, s.Kind, s.DSN()) }})
			})
		}
		for name, test := range beside {
			t.Run(name, func(t *testing.T) { t.Parallel(); test(t, s) })
		}
	})
	for name, test := range sore {
		t.Run(name, func(t *testing.T) { test(t, s) })
	}
}

// sqlitePath is a file that is not there yet.
func sqlitePath(t *testing.T) string { return filepath.Join(t.TempDir(), "rsc.db") }
