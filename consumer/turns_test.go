package consumer_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// TestACoordinatorThatIsOfNoUseIsLeft: one of two coordinators falls silent, or
// answers RETRY because it has lost its store. The other one is well, so nobody
// loses a lease.
func TestACoordinatorThatIsOfNoUseIsLeft(t *testing.T) {
	const members = 8
	// With the lease and the waits as they are, half a lease is left when the silent one is
	// given up.
	timings := protocol.Timings{HeartbeatInterval: 100 * time.Millisecond, Lease: 15 * time.Second, RebalanceTimeout: 15 * time.Second}
	for name, useless := range map[string]http.HandlerFunc{
		"silent": func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // the server watches a connection only then
			<-r.Context().Done()
		},
		"retry": func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			q, err := protocol.DecodeHeartbeat(body)
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			answer := protocol.NewHeartbeatResponse(q, protocol.StatusRetry, "the metadata store cannot be reached: repeat the request", timings)
			_ = json.NewEncoder(w).Encode(answer)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCoordinator(t, members, timings)
			var broken atomic.Bool
			var atSecond atomic.Int64
			first := serve(t, c, func(h http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if broken.Load() {
						useless(w, r)
						return
					}
					h.ServeHTTP(w, r)
				})
			})
			second := serve(t, c, func(h http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					atSecond.Add(1)
					h.ServeHTTP(w, r)
				})
			})
			watchers := make([]*watcher, members)
			for i := range watchers {
				watchers[i] = new(watcher)
				cfg := overHTTP(watchers[i], first.URL, second.URL)
				cfg.MemberID, cfg.MaxWait = fmt.Sprintf("member-%d", i), time.Second
				start(t, cfg)
			}
			eventually(t, "each member has a shard", func() bool {
				held := 0
				for _, w := range watchers {
					said := w.all()
					held += strings.Count(said, "assigned") - strings.Count(said, "revoked")
				}
				return held == members
			})
			broken.Store(true)
			began := time.Now()
			eventually(t, "a lease has passed, and all ask the second coordinator", func() bool {
				return time.Since(began) > timings.Lease && atSecond.Load() > members
			})
			for i, w := range watchers {
				if said := w.all(); strings.Contains(said, "lost") {
					t.Errorf("member %d was told: %s", i, said)
				}
			}
		})
	}
}
