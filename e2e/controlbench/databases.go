package main

import (
	"context"
	dbsql "database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	mysqldriver "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver of PostgreSQL
	_ "modernc.org/sqlite"             // the driver of SQLite

	"github.com/redis-stream-coordinator/rsc/adapters/http/httpload"
	"github.com/redis-stream-coordinator/rsc/adapters/sql"
	"github.com/redis-stream-coordinator/rsc/adapters/sql/sqltest"
	"github.com/redis-stream-coordinator/rsc/core/memstore"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
	"github.com/redis-stream-coordinator/rsc/core/service"
)

// The stores that are compared. The names begin those of their figures.
const (
	onRedis    = "Redis"
	onPostgres = string(sqltest.Postgres)
	onMariaDB  = string(sqltest.MariaDB)
	onSQLite   = "SQLite"
)

// storeNames are all of them, in the order of the report.
var storeNames = []string{onRedis, onPostgres, onMariaDB, onSQLite}

// parseStores reads a list of stores, as the command line gives it. Redis is always one.
func parseStores(list string) ([]string, error) {
	wanted := map[string]bool{}
	for name := range strings.SplitSeq(list, ",") {
		switch strings.ToLower(strings.TrimSpace(name)) {
		case "":
		case "all":
			for _, one := range storeNames {
				wanted[one] = true
			}
		case "postgres", "postgresql":
			wanted[onPostgres] = true
		case "mariadb", "mysql":
			wanted[onMariaDB] = true
		case "sqlite":
			wanted[onSQLite] = true
		default:
			return nil, fmt.Errorf("stores: %q is none, use postgres, mariadb, sqlite or all", name)
		}
	}
	var stores []string
	for _, name := range storeNames {
		if wanted[name] || name == onRedis && len(wanted) > 0 {
			stores = append(stores, name)
		}
	}
	return stores, nil
}

// storesScene compares stores, all against Redis in the same round.
func storesScene(stores []string) scene {
	s := scene{name: "stores", open: openStores}
	for _, name := range stores {
		if name == onRedis {
			s.notes = append(s.notes, note{onRedis + " keepalives", perSecond}, note{onRedis + " join storm", millis})
			continue
		}
		keepalives := target{what: "keepalives on " + name + ", HTTP, beside Redis", figure: name + " keepalives", peer: onRedis + " keepalives", unit: perSecond}
		if name == onPostgres {
			keepalives.limit = 0.5
		}
		s.targets = append(s.targets, keepalives)
		s.notes = append(s.notes, note{name + " join storm", millis})
	}
	return s
}

// storesStage has a coordinator on each store. All are open all the time, and one at a
// time has something to do.
type storesStage struct {
	b       *bench
	stores  []*storeStage
	servers []func() error
}

// storeStage is a coordinator on one store.
type storeStage struct {
	name     string
	groups   groupsStage
	target   *httpload.Target
	requests []*protocol.Heartbeat
}

// patient are timings with a lease that lasts while it is the turn of other stores.
var patient = protocol.Timings{HeartbeatInterval: 3 * time.Second, Lease: 10 * time.Minute, RebalanceTimeout: 10 * time.Minute}

func openStores(ctx context.Context, b *bench) (_ stage, err error) {
	s := &storesStage{b: b}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close(ctx))
		}
	}()
	for _, name := range b.stores {
		p := plan{redis: b.redis.addr, http: true, timings: patient}
		if name != onRedis {
			//nolint:contextcheck // a server is ended by close, after what uses it
			if p.database, err = s.database(name); err != nil {
				return nil, err
			}
		}
		one := &storeStage{name: name}
		if one.groups.c, err = startCoordinator(ctx, p); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		one.groups.b = b
		s.stores = append(s.stores, one)
		if one.requests, err = one.groups.c.settled(ctx, b.members, b.shards); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if one.target, err = httpload.NewTarget(one.groups.c.url, "", ""); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// database starts a server, or makes a folder for a file, and returns what opens it.
func (s *storesStage) database(name string) (func() (sql.Config, error), error) {
	if name == onSQLite {
		dir, err := os.MkdirTemp("", "controlbench")
		if err != nil {
			return nil, err
		}
		s.servers = append(s.servers, func() error { return os.RemoveAll(dir) })
		return func() (sql.Config, error) {
			db, err := dbsql.Open("sqlite", filepath.Join(dir, "rsc.db"))
			return sql.Config{DB: db, Dialect: sql.SQLite}, err
		}, nil
	}
	server, err := sqltest.New(sqltest.Kind(name))
	if err != nil {
		return nil, err
	}
	s.servers = append(s.servers, server.Close)
	if name == onPostgres {
		return func() (sql.Config, error) {
			db, err := dbsql.Open("pgx", server.DSN())
			return sql.Config{DB: db, Dialect: sql.Postgres}, err
		}, nil
	}
	return func() (sql.Config, error) {
		c := mysqldriver.NewConfig()
		c.Net, c.Addr, c.User, c.DBName, c.InterpolateParams = "tcp", server.Addr, "root", "test", true
		connector, err := mysqldriver.NewConnector(c)
		if err != nil {
			return sql.Config{}, err
		}
		return sql.Config{DB: dbsql.OpenDB(connector), Dialect: sql.MySQL, Code: mysqlCode}, nil
	}, nil
}

// mysqlCode is the number that a server gave to an error.
func mysqlCode(err error) string {
	var m *mysqldriver.MySQLError
	if errors.As(err, &m) {
		return strconv.Itoa(int(m.Number))
	}
	return ""
}

// openDatabase keeps the records in a database.
func (c *coordinator) openDatabase(ctx context.Context, p plan, ports *service.Ports) error {
	cfg, err := p.database()
	if err != nil {
		return err
	}
	cfg.DB.SetMaxIdleConns(poolSize)
	c.closePool = cfg.DB.Close
	store, err := sql.Open(ctx, cfg)
	if err != nil {
		return err
	}
	c.store.Store, ports.Mutex = store, new(memstore.Mutex)
	return nil
}

// poolSize is that of the command.
const poolSize = 16

func (s *storesStage) close(ctx context.Context) error {
	var errs []error
	for _, one := range s.stores {
		errs = append(errs, one.groups.c.close(ctx))
	}
	for _, end := range s.servers {
		errs = append(errs, end())
	}
	return errors.Join(errs...)
}

func (s *storesStage) round(ctx context.Context, n int) (measured, error) {
	m := measured{}
	for turn := range s.stores {
		one := s.stores[(turn+n)%len(s.stores)]
		r, err := s.b.fire(ctx, one.target, one.requests)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", one.name, err)
		}
		m[one.name+" keepalives"] = r.PerSecond()
		figures, err := storm(ctx, &one.groups)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", one.name, err)
		}
		m[one.name+" join storm"] = figures["balanced"]
	}
	return m, nil
}
