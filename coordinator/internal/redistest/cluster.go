package redistest

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	slotCount = 16384
	// nodeTimeout is how many milliseconds a node may stand still before the others think
	// that it is away; no test has one that is.
	nodeTimeout = "60000"
)

// StartCluster runs a Redis Cluster of so many masters, which share the slots
// evenly, and waits until all of them know it. It returns their addresses.
func StartCluster(t testing.TB, masters int) []string {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	addrs := make([]string, masters)
	clients := make([]*redis.Client, masters)
	buses := make([]int, masters)
	for i := range masters {
		buses[i] = reservePort(t)
		s := Start(t, "--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf", "--cluster-port", fmt.Sprint(buses[i]), "--cluster-node-timeout", nodeTimeout)
		addrs[i], clients[i] = s.Addr, s.Client()
		must(t, clients[i].ClusterAddSlotsRange(ctx, i*slotCount/masters, (i+1)*slotCount/masters-1).Err())
		must(t, clients[i].Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", i+1).Err())
	}
	for i := 1; i < masters; i++ {
		host, port, err := net.SplitHostPort(addrs[i])
		must(t, err)
		must(t, clients[0].Do(ctx, "CLUSTER", "MEET", host, port, buses[i]).Err())
	}
	for _, c := range clients {
		for deadline := time.Now().Add(readyTimeout); !strings.Contains(c.ClusterInfo(ctx).Val(), "cluster_state:ok"); {
			if time.Now().After(deadline) {
				t.Fatal("the Cluster does not become complete")
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	return addrs
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
