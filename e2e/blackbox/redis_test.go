package blackbox

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/e2e/faultkit"
)

// redisServer is a redis-server of a test.
type redisServer struct {
	*faultkit.Server

	t   *testing.T
	url string
}

// startRedis runs a redis-server.
func startRedis(t *testing.T, o faultkit.Options) *redisServer {
	t.Helper()
	faultkit.Slow(t)
	server := faultkit.Redis7.Start(t, o)
	return &redisServer{Server: server, t: t, url: "redis://" + server.Nodes[0].Addr}
}

// stored returns the records of all shards of the stream together, by payload,
// with how often each is stored.
func (r *redisServer) stored(shards int) map[string]int {
	r.t.Helper()
	payloads := map[string]int{}
	for shard := range shards {
		records, err := r.Client.XRange(r.t.Context(), shardKey(shard), "-", "+").Result()
		if err != nil {
			r.t.Fatal(err)
		}
		for _, record := range records {
			payload, ok := record.Values["payload"].(string)
			if !ok {
				r.t.Fatalf("%s: record %s has no payload: %v", shardKey(shard), record.ID, record.Values)
			}
			payloads[payload]++
		}
	}
	return payloads
}

// length returns how many records the shards of the stream hold together.
func (r *redisServer) length(shards int) int {
	r.t.Helper()
	sum := 0
	for shard := range shards {
		n, err := r.Client.XLen(r.t.Context(), shardKey(shard)).Result()
		if err != nil {
			r.t.Fatal(err)
		}
		sum += int(n)
	}
	return sum
}

// since returns how many records the shards hold together that were stored at a time or
// later, by the clock of this machine.
func (r *redisServer) since(shards int, at time.Time) int {
	r.t.Helper()
	sum := 0
	for shard := range shards {
		records, err := r.Client.XRange(r.t.Context(), shardKey(shard), strconv.FormatInt(at.UnixMilli(), 10), "+").Result()
		if err != nil {
			r.t.Fatal(err)
		}
		sum += len(records)
	}
	return sum
}

// unacknowledged returns how many records of the stream the group has been
// given or is still to be given, and has not acknowledged, as Redis counts them.
func (r *redisServer) unacknowledged(shards int) int64 {
	r.t.Helper()
	var left int64
	for shard := range shards {
		groups, err := r.Client.XInfoGroups(r.t.Context(), shardKey(shard)).Result()
		if err != nil {
			r.t.Fatal(err)
		}
		for _, g := range groups {
			if g.Name == group {
				left += g.Pending + g.Lag
			}
		}
	}
	return left
}

func shardKey(shard int) string { return fmt.Sprintf("%s:%d", stream, shard) }
