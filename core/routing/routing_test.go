package routing

import (
	"math"
	"strings"
	"testing"
)

func TestHashAgreesWithReference(t *testing.T) {
	keys := []string{
		"", "\x00", "\x00\x00", "\x00\x00\x00\x00", "\xff", "\xff\xff\xff\xff\xff",
		"é", "e\u0301", "주문", "注文番号", "🙂", "\xf0\x9f", "a\xffb", // also bytes that are not UTF-8
	}
	for length := range 70 { // every tail length, around every block boundary
		keys = append(keys, strings.Repeat("k", length), strings.Repeat("\x00", length), strings.Repeat("é", length))
	}
	keys = append(keys, strings.Repeat("long key ", 100_000), strings.Repeat("주", 1<<20))
	for _, key := range keys {
		if got, want := Hash(key), referenceHash([]byte(key), 0); got != want {
			t.Errorf("Hash of %d bytes %.20q = %d, want %d", len(key), key, got, want)
		}
		if got, want := Slot(key), referenceSlot(key); got != want {
			t.Errorf("Slot of %d bytes %.20q = %d, want %d", len(key), key, got, want)
		}
	}
}

func TestShardRefusesCountsOutsideRange(t *testing.T) {
	counts := []int{0, -1, -8, math.MinInt32, math.MinInt}
	if tooMany := uint64(1) << 32; math.MaxInt > math.MaxInt32 { // only 64-bit ints hold these
		counts = append(counts, int(tooMany>>1), int(tooMany-1), int(tooMany), int(tooMany+1), math.MaxInt)
	}
	for _, count := range counts {
		if got := Shard("order-1", count); got != NoShard {
			t.Errorf("Shard(order-1, %d) = %d, want NoShard", count, got)
		}
	}
}

// 1<<32/3 + 1 rejects almost a third of all hash values, the most that any
// count does; the largest count is where the arithmetic is closest to overflow.
func TestShardAtExtremeCounts(t *testing.T) {
	for _, count := range []int{1, 2, 3, 65_535, 65_536, 65_537, 1<<32/3 + 1, math.MaxInt32 - 1, MaxShardCount} {
		for i := range 200 {
			key := StreamKey("order", i)
			want, _ := referenceShard(key, count)
			if got := Shard(key, count); got != want {
				t.Errorf("Shard(%q, %d) = %d, want %d", key, count, got, want)
			}
		}
	}
}

// With the rejection every shard has the same chance; this catches a mapping
// that favours some of them, not a statistical subtlety.
func TestShardSpreadsKeys(t *testing.T) {
	const shards, perShard = 12, 2000
	var got [shards]int
	for i := range shards * perShard {
		got[Shard(StreamKey("customer", i), shards)]++
	}
	for shard, n := range got {
		if n < perShard*9/10 || n > perShard*11/10 {
			t.Errorf("shard %d got %d of %d keys, want %d within a tenth", shard, n, shards*perShard, perShard)
		}
	}
}

func TestSlotHashTags(t *testing.T) {
	for _, tc := range []struct {
		name, key, tag string
	}{
		{"no brace", "orders:0", "orders:0"},
		{"tag in front", "{orders}:0", "orders"},
		{"tag at the end", "a:{orders}", "orders"},
		{"first of two tags", "foo{bar}{zap}", "bar"},
		{"inner brace belongs to the tag", "foo{{bar}}zap", "{bar"},
		{"empty first tag: the whole key", "foo{}{bar}", "foo{}{bar}"},
		{"never closed", "foo{bar", "foo{bar"},
		{"closed before it opens", "foo}bar{", "foo}bar{"},
		{"a closing brace in front does not count", "a}b{c}d", "c"},
		{"only braces", "{}", "{}"},
		{"empty", "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := hashTag(tc.key); got != tc.tag {
				t.Errorf("hashTag(%q) = %q, want %q", tc.key, got, tc.tag)
			}
			if got, want := Slot(tc.key), referenceSlot(tc.key); got != want {
				t.Errorf("Slot(%q) = %d, want %d", tc.key, got, want)
			}
		})
	}
}

func TestStreamKey(t *testing.T) {
	for _, tc := range []struct {
		prefix string
		shard  int
		want   string
	}{
		{"orders", 0, "orders:0"},
		{"orders", 65_535, "orders:65535"},
		{"주문", 7, "주문:7"},
		{"a:b", 1, "a:b:1"},
	} {
		if got := StreamKey(tc.prefix, tc.shard); got != tc.want {
			t.Errorf("StreamKey(%q, %d) = %q, want %q", tc.prefix, tc.shard, got, tc.want)
		}
	}
}

func TestNoAllocation(t *testing.T) {
	keys := []string{"", "order-123", "order-689179", "주문-12345", strings.Repeat("x", 1024)}
	sink := 0
	allocs := testing.AllocsPerRun(100, func() {
		for _, key := range keys {
			sink += int(Hash(key)) + Shard(key, 10_007) + Slot(key)
		}
	})
	if allocs != 0 {
		t.Errorf("Hash, Shard and Slot allocate %v times, want 0", allocs)
	}
}

func FuzzRouting(f *testing.F) {
	for _, v := range loadVectors(f).Vectors {
		f.Add(v.Key, 8)
	}
	f.Add("order-689179", 10_007)
	f.Add("order-1", 1_500_000_001)
	f.Add("foo{}{bar}", 0)
	f.Add("\xff\xfe{a}\x00", math.MaxInt32)
	f.Add("order-1", math.MaxInt)
	f.Fuzz(func(t *testing.T, key string, count int) {
		if got, want := Hash(key), referenceHash([]byte(key), 0); got != want {
			t.Errorf("Hash(%q) = %d, want %d", key, got, want)
		}
		if got, want := Slot(key), referenceSlot(key); got != want {
			t.Errorf("Slot(%q) = %d, want %d", key, got, want)
		}
		want := NoShard
		if count >= 1 && count <= MaxShardCount {
			want, _ = referenceShard(key, count)
		}
		if got := Shard(key, count); got != want {
			t.Errorf("Shard(%q, %d) = %d, want %d", key, count, got, want)
		}
	})
}

func BenchmarkShard(b *testing.B) {
	for _, key := range []string{"order-123", "550e8400-e29b-41d4-a716-446655440000"} {
		b.Run(key, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Shard(key, 100)
			}
		})
	}
}

func BenchmarkSlot(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		Slot("redis-stream:coord:{orders:orders-consumer}:metadata")
	}
}
