package linear

import (
	"context"
	dbsql "database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	mysqldriver "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver of PostgreSQL
	_ "modernc.org/sqlite"             // the driver of SQLite

	"github.com/redis-stream-coordinator/rsc/adapters/sql"
	"github.com/redis-stream-coordinator/rsc/adapters/sql/sqltest"
	"github.com/redis-stream-coordinator/rsc/core/port"
	"github.com/redis-stream-coordinator/rsc/e2e/faultkit"
)

// openSQL reaches the store in a database.
func (p plan) openSQL(ctx context.Context) (store port.Store, done func(), err error) {
	db, err := p.pool()
	if err != nil {
		return nil, nil, err
	}
	for range 100 {
		store, err = sql.Open(ctx, sql.Config{DB: db, Dialect: p.Dialect, TablePrefix: p.TablePrefix, Code: code, Timeout: 5 * time.Second})
		if err == nil {
			return store, func() { _ = db.Close() }, nil
		}
	}
	return nil, nil, errors.Join(err, db.Close())
}

func (p plan) pool() (*dbsql.DB, error) {
	switch p.Dialect {
	case sql.Postgres:
		return dbsql.Open("pgx", p.DSN)
	case sql.SQLite:
		return dbsql.Open("sqlite", p.DSN)
	}
	u, err := url.Parse(p.DSN)
	if err != nil {
		return nil, err
	}
	c := mysqldriver.NewConfig()
	c.Net, c.Addr, c.User, c.DBName = "tcp", u.Host, u.User.Username(), strings.TrimPrefix(u.Path, "/")
	c.InterpolateParams, c.Logger = true, &mysqldriver.NopLogger{}
	connector, err := mysqldriver.NewConnector(c)
	if err != nil {
		return nil, err
	}
	return dbsql.OpenDB(connector), nil
}

// code is the code that a database gave to an error.
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

// commits are what a commit looks like on the wire. The word stands in the beginning of a
// transaction, too.
var commits = map[sqltest.Kind]string{sqltest.Postgres: "COMMIT\x00", sqltest.MariaDB: "COMMIT"}

// TestWritersSeeOneOrderInADatabase is the same with databases.
func TestWritersSeeOneOrderInADatabase(t *testing.T) {
	faultkit.Slow(t)
	faults := []struct {
		name string
		// fault is done again and again while the writers run.
		fault func(p *sqltest.Proxy, kind sqltest.Kind)
		// kill ends one of the writers in the middle.
		kill bool
		// unknown: there must be outcomes that nobody knows.
		unknown bool
	}{
		{name: "nothing happens"},
		{name: "connections break and a writer is killed", fault: cutNowAndThen, kill: true, unknown: true},
		{name: "answers to commits are lost", fault: func(p *sqltest.Proxy, kind sqltest.Kind) { p.Lose(commits[kind], 1) }, unknown: true},
	}
	for kind, dialect := range map[sqltest.Kind]sql.Dialect{sqltest.Postgres: sql.Postgres, sqltest.MariaDB: sql.MySQL} {
		t.Run(string(kind), func(t *testing.T) {
			s := sqltest.Start(t, kind)
			for i, f := range faults {
				t.Run(f.name, func(t *testing.T) {
					proxy := sqltest.NewProxy(t, s.Addr)
					seed := rand.Uint64()
					t.Logf("seed %d", seed)
					p := plan{Seed: seed, Dialect: dialect, DSN: s.DSNThrough(proxy), TablePrefix: fmt.Sprintf("t%d_", i)}
					ops := runWriters(t, p, f.kill, func() {
						if f.fault != nil {
							f.fault(proxy, kind)
						}
					})
					judge(t, ops, f.unknown, true)
				})
			}
		})
	}
}

// cutNowAndThen breaks all connections, seldom enough that new ones come to be used: a
// call whose outcome is unknown may take place until the end of time, so many of them
// leave a checker with too many orders to look at.
func cutNowAndThen(p *sqltest.Proxy, _ sqltest.Kind) {
	if rand.IntN(10) == 0 {
		p.Cut()
	}
}

// TestWritersSeeOneOrderInAFile: processes on one SQLite file, one of which is killed.
func TestWritersSeeOneOrderInAFile(t *testing.T) {
	faultkit.Slow(t)
	for _, kill := range []bool{false, true} {
		t.Run("killed="+strconv.FormatBool(kill), func(t *testing.T) {
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			dsn := filepath.Join(t.TempDir(), "rsc.db")
			judge(t, runWriters(t, plan{Seed: seed, Dialect: sql.SQLite, DSN: dsn}, kill, func() {}), false, true)
		})
	}
}
