package redis_test

import (
	"context"
	"testing"

	"github.com/redis-stream-coordinator/rsc/adapters/redis"
	"github.com/redis-stream-coordinator/rsc/adapters/redis/internal/redistest"
)

func TestOnRedis(t *testing.T) {
	t.Parallel()
	suites(t, redistest.Start(t).URL())
}

// TestOnMiniredis: the embedded server is what the demo falls back to.
func TestOnMiniredis(t *testing.T) {
	t.Parallel()
	suites(t, startMini(t))
}

// TestMetadataOnCluster: three masters with a replica each.
func TestMetadataOnCluster(t *testing.T) {
	t.Parallel()
	metadataSuites(t, redis.Config{Addrs: redistest.StartCluster(t, 3, true).Addrs()})
}

// TestStreamsOnNewerServers: what is done with streams, on servers that count and number
// them in other ways.
func TestStreamsOnNewerServers(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"redis-8.0", "valkey-9"} {
		t.Run(name, func(t *testing.T) {
			url := redistest.StartOther(t, name).URL()
			c := raw(t, url)
			streamSuites(t, redis.Config{URL: url}, c, func(ctx context.Context) error { return removeKeys(ctx, c) })
			testRenewKeepsTheRest(t, url)
		})
	}
}
