package redis_test

import (
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
