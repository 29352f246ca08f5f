package controlplane

import (
	"fmt"
	"net/http"
	"path/filepath"
	"sync"
	"testing"

	"github.com/redis-stream-coordinator/rsc/adapters/sql/sqltest"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
	"github.com/redis-stream-coordinator/rsc/e2e/faultkit"
	"github.com/redis-stream-coordinator/rsc/e2e/rsctest"
)

const (
	// cuts is how often the power is cut, creators are how many callers there are then, and
	// between two cuts so many streams are created at least.
	cuts, creators, createdEach = 3, 4, 20
)

// TestPowerCut: streams are created by several callers while coordinator and database are
// killed at the same time; every stream whose creation was answered is there afterwards.
func TestPowerCut(t *testing.T) {
	asked(t)
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		cutPower(t, nil, "--store", "sqlite:"+filepath.Join(t.TempDir(), "rsc.db"))
	})
	for _, kind := range []sqltest.Kind{sqltest.Postgres, sqltest.MariaDB} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			s := sqltest.Start(t, kind)
			cutPower(t, s, rsctest.Set("coordinator.store.type", "sql", "coordinator.sql.dsn", s.DSN())...)
		})
	}
}

// answered are the streams whose creation was answered.
type answered struct {
	mu    sync.Mutex
	names []string
}

func (a *answered) add(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.names = append(a.names, name)
}

func (a *answered) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.names)
}

func cutPower(t *testing.T, database *sqltest.Server, store ...string) {
	t.Helper()
	rsctest.Program(t) // the tests' own times are not for building
	c := startCoordinator(t, "coordinator-0", store...)
	var created answered
	for cut := range cuts {
		off := make(chan struct{})
		var creating sync.WaitGroup
		for i := range creators {
			creating.Go(func() {
				for n := 0; ; n++ {
					select {
					case <-off:
						return
					default:
					}
					shards := 4
					name := fmt.Sprintf("orders-%d-%d-%d", cut, i, n)
					status, _ := c.Call(http.MethodPost, "/coord/v1/streams/"+name, protocol.CreateStream{InitialShardCount: &shards, RequestedBy: "test"})
					if status == http.StatusCreated {
						created.add(name)
					}
				}
			})
		}
		enough := created.count() + createdEach
		faultkit.Eventually(t, startTimeout, "some streams to be created", func() bool { return created.count() >= enough })
		var killing sync.WaitGroup
		killing.Go(c.Proc.Kill)
		if database != nil {
			killing.Go(database.Kill)
		}
		killing.Wait()
		close(off)
		creating.Wait()
		if database != nil {
			database.Launch()
		}
		c.Relaunch()
		c.Await()
		for _, name := range created.names {
			if status, body := c.Call(http.MethodGet, "/coord/v1/streams/"+name, nil); status != http.StatusOK {
				t.Errorf("cut %d: stream %s was created, and is answered with %d %s", cut+1, name, status, body)
			}
		}
	}
	t.Logf("%d streams were created over %d power cuts", len(created.names), cuts)
}
