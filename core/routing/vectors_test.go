package routing

import (
	"encoding/json"
	"os"
	"strconv"
	"testing"
)

// vectors mirrors testdata/routing.json, the vectors that clients in every
// language are tested with. Hashes in it are signed.
type vectors struct {
	ShardCounts []int `json:"shard_counts"`
	Vectors     []struct {
		Key     string         `json:"key"`
		UTF8Len int            `json:"utf8_len"`
		Murmur3 int32          `json:"murmur3"`
		Shards  map[string]int `json:"shards"`
	} `json:"vectors"`
	ExtraShardCounts []struct {
		Key    string         `json:"key"`
		Shards map[string]int `json:"shards"`
	} `json:"extra_shard_counts"`
	RehashVectors []struct {
		Key        string `json:"key"`
		ShardCount int    `json:"shardCount"`
		Attempts   int    `json:"attempts"`
		Shard      int    `json:"shard"`
		Murmur3    *int32 `json:"murmur3"`
	} `json:"rehash_vectors"`
	RetrySeeds    map[string]int32 `json:"retry_seeds"`
	SeededMurmur3 []struct {
		Key     string `json:"key"`
		Seed    int32  `json:"seed"`
		Murmur3 int32  `json:"murmur3"`
	} `json:"seeded_murmur3"`
	RedisClusterSlots map[string]int `json:"redis_cluster_slots"`
}

func loadVectors(t testing.TB) vectors {
	t.Helper()
	raw, err := os.ReadFile("testdata/routing.json")
	if err != nil {
		t.Fatal(err)
	}
	var v vectors
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	// A renamed field must not turn the tests below into empty loops.
	for section, size := range map[string]int{
		"shard_counts": len(v.ShardCounts), "vectors": len(v.Vectors),
		"extra_shard_counts": len(v.ExtraShardCounts), "rehash_vectors": len(v.RehashVectors),
		"retry_seeds": len(v.RetrySeeds), "seeded_murmur3": len(v.SeededMurmur3),
		"redis_cluster_slots": len(v.RedisClusterSlots),
	} {
		if size == 0 {
			t.Fatalf("testdata/routing.json: section %s is empty", section)
		}
	}
	return v
}

func TestVectorsHashAndShard(t *testing.T) {
	all := loadVectors(t)
	for _, v := range all.Vectors {
		if len(v.Key) != v.UTF8Len {
			t.Errorf("%q: %d bytes, want %d", v.Key, len(v.Key), v.UTF8Len)
		}
		if got := int32(Hash(v.Key)); got != v.Murmur3 {
			t.Errorf("Hash(%q) = %d, want %d", v.Key, got, v.Murmur3)
		}
		if len(v.Shards) != len(all.ShardCounts) {
			t.Errorf("%q: %d shards for %d counts", v.Key, len(v.Shards), len(all.ShardCounts))
		}
		checkShards(t, v.Key, v.Shards)
	}
	for _, v := range all.ExtraShardCounts {
		checkShards(t, v.Key, v.Shards)
	}
}

func checkShards(t *testing.T, key string, shards map[string]int) {
	t.Helper()
	for count, want := range shards {
		n, err := strconv.Atoi(count)
		if err != nil {
			t.Fatal(err)
		}
		if got := Shard(key, n); got != want {
			t.Errorf("Shard(%q, %d) = %d, want %d", key, n, got, want)
		}
	}
}

func TestVectorsRetry(t *testing.T) {
	all := loadVectors(t)
	for _, v := range all.RehashVectors {
		if v.Murmur3 != nil && int32(Hash(v.Key)) != *v.Murmur3 {
			t.Errorf("Hash(%q) = %d, want %d", v.Key, int32(Hash(v.Key)), *v.Murmur3)
		}
		if got := Shard(v.Key, v.ShardCount); got != v.Shard {
			t.Errorf("Shard(%q, %d) = %d, want %d", v.Key, v.ShardCount, got, v.Shard)
		}
		// The vector is only worth something if it does take that many tries.
		if _, attempts := referenceShard(v.Key, v.ShardCount); attempts != v.Attempts {
			t.Errorf("%q, %d shards: %d attempts, want %d", v.Key, v.ShardCount, attempts, v.Attempts)
		}
	}
	for attempt, want := range all.RetrySeeds {
		n, err := strconv.ParseUint(attempt, 10, 32)
		if err != nil {
			t.Fatal(err)
		}
		if got := int32(seedOf(uint32(n))); got != want {
			t.Errorf("seedOf(%d) = %d, want %d", n, got, want)
		}
	}
	for _, v := range all.SeededMurmur3 {
		if got := int32(seededHash(v.Key, uint32(v.Seed))); got != v.Murmur3 {
			t.Errorf("seededHash(%q, %d) = %d, want %d", v.Key, v.Seed, got, v.Murmur3)
		}
	}
}

func TestVectorsSlot(t *testing.T) {
	for key, want := range loadVectors(t).RedisClusterSlots {
		if got := Slot(key); got != want {
			t.Errorf("Slot(%q) = %d, want %d", key, got, want)
		}
	}
}
