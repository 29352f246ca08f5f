package server

import (
	"context"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis-stream-coordinator/rsc/adapters/sql/sqltest"
)

// createOrders creates the stream that wantOrders looks for.
func createOrders(t *testing.T, r *running) {
	t.Helper()
	if status, answer := r.call(t, http.MethodPost, "/coord/v1/streams/orders", `{"initialShardCount": 4, "requestedBy": "test"}`); status != http.StatusCreated {
		t.Fatalf("create: %d %s", status, answer)
	}
}

func wantOrders(t *testing.T, r *running) {
	t.Helper()
	if status, answer := r.call(t, http.MethodGet, "/coord/v1/streams/orders", ""); status != http.StatusOK || !strings.Contains(answer, `"shardCount":4`) {
		t.Errorf("the stream: %d %s", status, answer)
	}
}

// TestSQLiteStore: what was created is there after a restart, and the audit with it.
func TestSQLiteStore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rsc.db")
	pairs := []string{"coordinator.store.type=sqlite:" + path, "coordinator.audit.sink=sql"}
	first := run(t, settings(t, pairs...), Options{})
	createOrders(t, first)
	if err := first.end(t); err != nil {
		t.Fatal(err)
	}
	wantOrders(t, run(t, settings(t, pairs...), Options{}))
}

// TestDatabaseServers: the same on servers, one of which is started after its
// coordinator; another coordinator hears of what is written.
func TestDatabaseServers(t *testing.T) {
	for kind, driver := range map[sqltest.Kind]string{sqltest.Postgres: "postgres", sqltest.MariaDB: "mysql"} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			server := sqltest.Start(t, kind)
			pairs := []string{"coordinator.store.type=sql", "coordinator.sql.driver=" + driver, "coordinator.sql.dsn=" + server.DSN()}
			server.Stop()
			launched := make(chan struct{})
			go func() { defer close(launched); server.Launch() }()
			first := run(t, settings(t, pairs...), Options{})
			<-launched
			createOrders(t, first)
			wantOrders(t, run(t, settings(t, pairs...), Options{}))
		})
	}
}

// TestDatabaseThatIsRefused: nobody waits for what waiting does not change, and no
// password is shown.
func TestDatabaseThatIsRefused(t *testing.T) {
	folder := t.TempDir()
	for _, test := range []struct{ driver, dsn, says string }{
		{"sqlite", filepath.Join(folder, "none", "rsc.db"), "there is no folder"},
		{"sqlite", ":memory:", "must be the path of a file"},
		{"postgres", "postgres://u:hunter2@h:notaport/d", "the DSN cannot be read"},
		{"mysql", "u:hunter2@tcp(h)", "the DSN cannot be read"},
		{"mysql", "mysql://u:hunter2@h", "the DSN cannot be read"},
	} {
		cfg := settings(t, "coordinator.store.type=sql", "coordinator.sql.driver="+test.driver, "coordinator.sql.dsn="+test.dsn)
		_, err := New(context.Background(), cfg, Options{Logger: new(logBuffer).logger()})
		if err == nil || !strings.Contains(err.Error(), test.says) || !strings.Contains(err.Error(), "coordinator.sql") || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", test.dsn, err)
		}
	}
}
