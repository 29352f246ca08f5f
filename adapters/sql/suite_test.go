package sql_test

import (
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
	// A database that is set up in its own way must not make a difference.
	t.Run("Serializable", func(t *testing.T) {
		suites(t, s.Kind, s.DSN()+"&default_transaction_isolation=serializable")
	})
	// A pooler lends another connection for each transaction, so nothing is prepared.
	t.Run("WithoutPreparedStatements", func(t *testing.T) {
		suites(t, s.Kind, s.DSN()+"&default_query_exec_mode=exec")
	})
}

func TestOnMariaDB(t *testing.T) {
	t.Parallel()
	s := sqltest.Start(t, sqltest.MariaDB)
	t.Run("Store", func(t *testing.T) { suites(t, s.Kind, s.DSN()) })
	t.Run("ReadCommitted", func(t *testing.T) {
		suites(t, s.Kind, s.DSN()+"?tx_isolation=%27READ-COMMITTED%27&sql_mode=%27%27")
	})
}

func TestOnSQLite(t *testing.T) {
	t.Parallel()
	porttest.Store(t, func(t *testing.T) port.Store {
		return open(t, sql.Config{DB: sqliteFile(t, sqlitePath(t)), Dialect: sql.SQLite})
	})
}

// told is a store with its signal.
type told struct {
	*sql.Store
	port.Signal
}

func signalStore(s *sql.Store) told { return told{s, s.Signal()} }
