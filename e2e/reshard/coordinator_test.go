package reshard

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
	"github.com/redis-stream-coordinator/rsc/e2e/faultkit"
	"github.com/redis-stream-coordinator/rsc/e2e/rsctest"
)

// The timings of all groups here. The lease is one that a machine which stands still for
// seconds does not end.
const (
	lease            = 10 * time.Second
	heartbeat        = 500 * time.Millisecond
	tick             = 100 * time.Millisecond
	rebalanceTimeout = 20 * time.Second
	startTimeout     = 60 * time.Second
	requestTimeout   = 30 * time.Second
)

// routingLease is how long a producer may use what it was told, and so how long a change
// is ACTIVE at least: 30 s is the default. In the short form it is long enough to be met
// in that state.
func routingLease() time.Duration { return either(6*time.Second, 30*time.Second) }

// startCoordinator runs a coordinator that keeps its records on s, where the streams are
// too.
func startCoordinator(tb testing.TB, s *faultkit.Server, id string, args ...string) *rsctest.Coordinator {
	tb.Helper()
	timings := rsctest.Timings{Lease: lease, Heartbeat: heartbeat, Tick: tick, RebalanceTimeout: rebalanceTimeout}
	own := append(timings.Args(), rsctest.Set("coordinator.routing-lease", routingLease().String())...)
	if s.Kind.Clustered {
		own = append(own, rsctest.Set("coordinator.redis.addresses", strings.Join(s.Addrs(), ","))...)
	} else {
		own = append(own, "--redis", "redis://"+s.Nodes[0].Addr)
	}
	return rsctest.Start(tb, rsctest.Config{ID: id, Args: append(own, args...), StartTimeout: startTimeout, RequestTimeout: requestTimeout})
}

// fleet are several coordinators of one store.
type fleet []*rsctest.Coordinator

// urls are where they listen.
func (f fleet) urls() []string {
	var urls []string
	for _, c := range f {
		urls = append(urls, c.URL)
	}
	return urls
}

// ask sends a request to the first that answers.
func (f fleet) ask(method, path string, content any) (status int, body []byte) {
	f[0].TB.Helper()
	for _, c := range f {
		if status, body = c.Call(method, path, content); status != 0 {
			break
		}
	}
	return status, body
}

// order is ask of what is to be accepted; the answer is read into the last argument.
func (f fleet) order(path string, content, into any) {
	f[0].TB.Helper()
	status, body := f.ask(http.MethodPost, path, content)
	if status/100 != 2 {
		f[0].TB.Fatalf("POST %s: %d %s", path, status, body)
	}
	if into == nil {
		return
	}
	if err := json.Unmarshal(body, into); err != nil {
		f[0].TB.Fatalf("POST %s: %s: %v", path, body, err)
	}
}

func streamPath(stream string) string { return "/coord/v1/streams/" + stream }

// createStream creates a stream with groups.
func (f fleet) createStream(stream string, shards int, groups ...string) {
	f[0].TB.Helper()
	f.order(streamPath(stream), protocol.CreateStream{InitialShardCount: &shards, RequestedBy: "test"}, nil)
	for _, g := range groups {
		f.order(streamPath(stream)+"/groups/"+g, protocol.CreateGroup{RequestedBy: "test"}, nil)
	}
}

func scaleTo(n int) protocol.Scale {
	return protocol.Scale{TargetShardCount: &n, RequestedBy: "test", Reason: fmt.Sprintf("to %d", n)}
}

// scale begins to change the shard count, and returns the id of the change.
func (f fleet) scale(stream string, to int) string {
	f[0].TB.Helper()
	var scaled protocol.StreamScaled
	f.order(streamPath(stream)+"/scale", scaleTo(to), &scaled)
	if len(scaled.Migrations) == 0 || scaled.Migrations[0].ReshardingID == protocol.NoMigration {
		f[0].TB.Fatalf("scale %s to %d: %+v", stream, to, scaled)
	}
	return scaled.Migrations[0].ReshardingID
}

// migration returns a change of the shard count, false when nobody answers.
func (f fleet) migration(stream, id string) (m protocol.Migration, ok bool) {
	f[0].TB.Helper()
	status, body := f.ask(http.MethodGet, streamPath(stream)+"/migrations/"+id, nil)
	if status != http.StatusOK {
		return m, false
	}
	if err := json.Unmarshal(body, &m); err != nil {
		f[0].TB.Fatalf("migration %s: %s: %v", id, body, err)
	}
	return m, true
}

// open returns the change of the shard count that is under way, the last one.
func (f fleet) open(stream string) protocol.Migration {
	f[0].TB.Helper()
	var list protocol.MigrationList
	status, body := f.ask(http.MethodGet, streamPath(stream)+"/migrations", nil)
	if status != http.StatusOK {
		f[0].TB.Fatalf("migrations of %s: %d %s", stream, status, body)
	}
	if err := json.Unmarshal(body, &list); err != nil || len(list.Migrations) == 0 {
		f[0].TB.Fatalf("migrations of %s: %s: %v", stream, body, err)
	}
	return list.Migrations[0]
}
