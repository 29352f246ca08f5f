package redis_test

import (
	"bytes"
	"fmt"
	"strconv"
	"testing"

	"github.com/redis-stream-coordinator/rsc/adapters/redis"
	"github.com/redis-stream-coordinator/rsc/adapters/redis/internal/redistest"
	"github.com/redis-stream-coordinator/rsc/core/port"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// BenchmarkStore measures the calls of the coordinator's daily life, one after
// the other, beside a bare PING on the same connection.
func BenchmarkStore(b *testing.B) {
	url := redistest.Start(b).URL()
	c := open(b, redis.Config{URL: url})
	s, err := c.Store(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	body := bytes.Repeat([]byte("0123456789"), 15_000) // 150 KB
	nonce := 0
	save := func(b *testing.B, v port.Version) port.Version {
		b.Helper()
		nonce++
		v, err := s.SaveGroup(b.Context(), orders, port.GroupSave{Expected: v, Nonce: strconv.Itoa(nonce), Body: body})
		if err != nil {
			b.Fatal(err)
		}
		return v
	}
	v := save(b, port.Version{})

	b.Run("Ping", func(b *testing.B) {
		for b.Loop() {
			if err := c.Streams().Ping(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("Instance", func(b *testing.B) {
		for b.Loop() {
			if _, err := s.Ping(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	})
	for _, n := range []int{1, 1000} {
		stamps := make([]port.Stamp, n)
		for i := range stamps {
			stamps[i] = port.Stamp{Life: fmt.Sprintf("%026d", i), Value: fmt.Sprintf("%026d", i)}
		}
		b.Run(fmt.Sprintf("RenewGroup/stamps=%d", n), func(b *testing.B) {
			for b.Loop() {
				if err := s.RenewGroup(b.Context(), orders, port.Renewal{Expected: v, Stamps: stamps}); err != nil {
					b.Fatal(err)
				}
			}
		})
		for name, known := range map[string]port.Version{"known": v, "unknown": {}} {
			b.Run(fmt.Sprintf("LoadGroup/%s/stamps=%d", name, n), func(b *testing.B) {
				for b.Loop() {
					if _, err := s.LoadGroup(b.Context(), orders, known); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
	b.Run("SaveGroup/150KB", func(b *testing.B) {
		for b.Loop() {
			v = save(b, v)
		}
	})
	b.Run("Mutex", func(b *testing.B) {
		m := c.Mutex()
		for b.Loop() {
			unlock, err := m.LockGroup(b.Context(), orders)
			if err != nil {
				b.Fatal(err)
			}
			unlock()
		}
	})
}

// BenchmarkProvision creates 1,000 shards with 3 groups each, afresh.
func BenchmarkProvision(b *testing.B) {
	s := open(b, redis.Config{URL: redistest.Start(b).URL()}).Streams()
	for i := 0; b.Loop(); i++ {
		p := port.Provision{Prefix: fmt.Sprintf("s%d", i), End: 1000, Groups: []string{"a", "b", "c"}, Start: protocol.StartEarliest}
		if err := s.Provision(b.Context(), p); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkShards looks at 1,000 shards with 3 groups each, gives them new last ids, and
// removes them.
func BenchmarkShards(b *testing.B) {
	s := open(b, redis.Config{URL: redistest.Start(b).URL()}).Streams()
	p := port.Provision{Prefix: "s", End: 1000, Groups: []string{"a", "b", "c"}, Start: protocol.StartEarliest, Renew: true}
	indexes := make([]int, p.End)
	for i := range indexes {
		indexes[i] = i
	}
	provision := func(b *testing.B) {
		b.Helper()
		if err := s.Provision(b.Context(), p); err != nil {
			b.Fatal(err)
		}
	}
	look := func(b *testing.B) []port.Shard {
		b.Helper()
		shards, err := s.LookAt(b.Context(), p.Prefix, indexes)
		if err != nil {
			b.Fatal(err)
		}
		return shards
	}
	b.Run("Renew", func(b *testing.B) {
		for b.Loop() {
			provision(b)
		}
	})
	b.Run("LookAt", func(b *testing.B) {
		for b.Loop() {
			look(b)
		}
	})
	b.Run("Retire", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			provision(b)
			ask := port.Retirement{Prefix: p.Prefix}
			for _, sh := range look(b) {
				ask.Shards = append(ask.Shards, port.RetireShard{Index: sh.Index, LastID: sh.LastID})
			}
			b.StartTimer()
			if _, err := s.Retire(b.Context(), ask); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("Find/65536", func(b *testing.B) {
		for b.Loop() {
			if _, err := s.Find(b.Context(), p.Prefix, 0, 65_536); err != nil {
				b.Fatal(err)
			}
		}
	})
}
