package controlplane

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/adapters/sql/sqltest"
	"github.com/redis-stream-coordinator/rsc/e2e/rsctest"
)

// The names of faults of databases.
const (
	freezeDatabase  = "the database stands still"
	killDatabase    = "kill -9 of the database"
	restartDatabase = "the database restarts in order"
	dieDatabase     = "a process of the database dies"
)

var (
	postgresFaults = []string{freezeDatabase, killDatabase, restartDatabase, dieDatabase}
	mariaFaults    = []string{freezeDatabase, killDatabase, restartDatabase}
	// fileCoordinatorFaults are those that one on a SQLite file can have.
	fileCoordinatorFaults = []string{killCoordinator, stopCoordinator, pauseCoordinator}
)

// database is what coordinators keep their records in instead of Redis. server is nil
// for a SQLite file.
type database struct {
	name   string
	server *sqltest.Server
	// proxies stand between each coordinator and the server.
	proxies map[string]*sqltest.Proxy
}

// TestChaosOnPostgres: three coordinators share a PostgreSQL, with the same faults as on
// Redis and some of a database.
func TestChaosOnPostgres(t *testing.T) {
	asked(t)
	t.Parallel()
	playOnDatabase(t, sqltest.Postgres, "postgres", postgresFaults)
}

// TestChaosOnMariaDB: the same on MariaDB, where coordinators do not hear of each other.
func TestChaosOnMariaDB(t *testing.T) {
	asked(t)
	t.Parallel()
	playOnDatabase(t, sqltest.MariaDB, "mysql", mariaFaults)
}

// TestChaosOnSQLite: three coordinators on one file.
func TestChaosOnSQLite(t *testing.T) {
	asked(t)
	t.Parallel()
	path := filepath.Join(t.TempDir(), "rsc.db")
	w := startOnDatabase(t, &database{name: "SQLite"}, func(string) []string { return []string{"--store", "sqlite:" + path} })
	c := newChaos(w, nil)
	c.coordinatorDeck.cards = fileCoordinatorFaults
	w.populate(processCount)
	c.open()
	if long() {
		c.play(minutes(t, 5))
	} else {
		c.round([]string{killCoordinator, stopCoordinator}, nil, "")
		c.round([]string{killCoordinator}, []string{killMembers, pauseMembers}, "")
		c.round([]string{pauseCoordinator}, []string{leaveMembers}, "")
	}
	c.close()
}

func playOnDatabase(t *testing.T, kind sqltest.Kind, driver string, faults []string) {
	t.Helper()
	server := sqltest.Start(t, kind)
	d := &database{name: string(kind), server: server, proxies: map[string]*sqltest.Proxy{}}
	w := startOnDatabase(t, d, func(id string) []string {
		d.proxies[id] = sqltest.NewProxy(t, server.Addr)
		return rsctest.Set("coordinator.store.type", "sql", "coordinator.sql.driver", driver, "coordinator.sql.dsn", server.DSNThrough(d.proxies[id]))
	})
	c := newChaos(w, faults)
	w.populate(processCount)
	c.open()
	if long() {
		c.play(minutes(t, 5))
	} else {
		c.round([]string{killCoordinator, hushCoordinator}, nil, "")
		c.round([]string{cutCoordinator}, []string{killMembers, pauseMembers}, killDatabase)
		c.round([]string{pauseCoordinator}, []string{leaveMembers}, freezeDatabase)
		c.round([]string{stopCoordinator}, nil, faults[len(faults)-1])
	}
	c.close()
}

// startOnDatabase runs three coordinators with what args says besides.
func startOnDatabase(t *testing.T, d *database, args func(id string) []string) *world {
	t.Helper()
	rsctest.Program(t) // the tests' own times are not for building
	config := rsctest.Declaring(t, stream, shardCount, group)
	var all []*coordinator
	for i := range coordinatorCount {
		all = append(all, startCoordinator(t, user(i), append(config[:len(config):len(config)], args(user(i))...)...))
	}
	w := newWorld(t, all, shardCount)
	w.database = d
	return w
}

// bar cuts a coordinator off from its store, see faultkit.Server.Bar.
func (w *world) bar(id string, hush bool) {
	if w.database != nil {
		w.database.proxies[id].Bar(hush)
		return
	}
	w.server.Bar(id, hush)
}

// unbar ends what bar began.
func (w *world) unbar(id string) {
	if w.database != nil {
		w.database.proxies[id].Open()
		return
	}
	w.server.Open(id)
}

// storeName says what the coordinators keep their records in.
func (w *world) storeName() string {
	if w.database != nil {
		return w.database.name
	}
	return w.server.Kind.Name
}

// databaseFault is a fault of the store that is a database.
func (w *world) databaseFault(name string) fault {
	s := w.database.server
	f := fault{name: name, on: onRedis, end: func() {}, recovered: func() {}}
	switch name {
	case freezeDatabase:
		f.lasts = lease / 2
		f.begin, f.end = s.Freeze, s.Thaw
	case killDatabase:
		f.lasts = 500 * time.Millisecond
		f.begin, f.end = s.Kill, s.Launch
	case restartDatabase:
		f.begin, f.end = s.Stop, s.Launch
	case dieDatabase:
		f.begin = s.KillChild
	default:
		w.t.Fatalf("no fault of databases: %s", name)
	}
	return f
}
