package sql_test

import (
	dbsql "database/sql"
	"testing"

	"github.com/redis-stream-coordinator/rsc/adapters/sql"
	"github.com/redis-stream-coordinator/rsc/adapters/sql/sqltest"
	"github.com/redis-stream-coordinator/rsc/core/port"
	"github.com/redis-stream-coordinator/rsc/core/port/porttest"
)

func TestOnPostgres(t *testing.T) {
	t.Parallel()
	s := sqltest.Start(t, sqltest.Postgres)
	t.Run("Store", func(t *testing.T) { suites(t, s.Kind, s.DSN()) })
	t.Run("Signal", func(t *testing.T) {
		db := database(t, s.Kind, s.DSN())
		porttest.Signal(t, func(t *testing.T) (a, b porttest.SignalStore) {
			cfg := sql.Config{DB: db, Dialect: sql.Postgres, TablePrefix: freshPrefix(), Listen: listenOn(s.DSN())}
			return signalStore(open(t, cfg)), signalStore(open(t, cfg))
		})
	})
	t.Run("Deafness", func(t *testing.T) { testDeafness(t, s) })
	// A database that is set up in its own way must not make a difference, nor a pooler
	// that lends another connection for each transaction, so that nothing is prepared.
	t.Run("StoreOtherwise", func(t *testing.T) {
		suites(t, s.Kind, s.DSN()+"&default_transaction_isolation=serializable&default_query_exec_mode=exec")
	})
	onServer(t, s)
}

func TestOnMariaDB(t *testing.T) {
	t.Parallel()
	s := sqltest.Start(t, sqltest.MariaDB)
	t.Run("Store", func(t *testing.T) { suites(t, s.Kind, s.DSN()) })
	t.Run("StoreOtherwise", func(t *testing.T) {
		suites(t, s.Kind, s.DSN()+"?tx_isolation=%27READ-COMMITTED%27&sql_mode=%27%27")
	})
	onServer(t, s)
}

func TestOnSQLite(t *testing.T) {
	t.Parallel()
	porttest.Store(t, func(t *testing.T) port.Store {
		return open(t, sql.Config{DB: sqliteFile(t, sqlitePath(t)), Dialect: sql.SQLite})
	})
	for name, test := range anywhere {
		t.Run(name, func(t *testing.T) {
			path := sqlitePath(t)
			test(t, place{sql.SQLite, freshPrefix(), func() *dbsql.DB { return sqliteFile(t, path) }})
		})
	}
}

// told is a store with its signal.
type told struct {
	*sql.Store
	port.Signal
}

func signalStore(s *sql.Store) told { return told{s, s.Signal()} }
