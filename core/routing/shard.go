package routing

import (
	"math"
	"strconv"
)

// MaxShardCount is the largest shard count that Shard accepts: the largest
// that every language of the contract can express. What a stream may have in
// practice is a limit of the coordinator and far lower.
const MaxShardCount = math.MaxInt32

// NoShard is what Shard returns when there is no shard to choose.
const NoShard = -1

// Shard returns the shard, 0 to shardCount-1, that records with partition key
// key go to. The empty key is a key like any other. It returns NoShard when
// shardCount is not in 1 to MaxShardCount, so a stream scaled to zero has no
// shard for anybody.
//
// Every shard gets the same share of the hash values: those above the largest
// multiple of shardCount are rejected and the key is hashed again with a seed
// made from the number of the attempt. A power of two rejects nothing.
func Shard(key string, shardCount int) int {
	if shardCount < 1 || shardCount > MaxShardCount {
		return NoShard
	}
	count := uint32(shardCount)
	// -count is 2^32-count, so this is 2^32 mod count: the number of hash
	// values, at the very top, that are rejected.
	rejected := -count % count
	u := Hash(key)
	// The loop ends for every key. An attempt number maps to a seed one to one
	// and, for a fixed key, a seed maps to a hash one to one, so the attempts
	// walk through the 2^32 hash values without repeating one, and fewer than
	// half of them are rejected.
	for attempt := uint32(1); u > math.MaxUint32-rejected; attempt++ {
		u = seededHash(key, seedOf(attempt))
	}
	return int(u % count)
}

// StreamKey returns the key of the Redis Stream that is shard number shard of
// the stream with this prefix: "prefix:shard".
func StreamKey(prefix string, shard int) string {
	return prefix + ":" + strconv.Itoa(shard)
}
