package sql_test

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/redis-stream-coordinator/rsc/adapters/sql"
	"github.com/redis-stream-coordinator/rsc/adapters/sql/sqltest"
	"github.com/redis-stream-coordinator/rsc/core/port"
)

// BenchmarkStore is what the calls of a coordinator cost on each database.
func BenchmarkStore(b *testing.B) {
	for kind, dialect := range dialects {
		b.Run(string(kind), func(b *testing.B) {
			s := sqltest.Start(b, kind)
			benchmark(b, open(b, sql.Config{DB: database(b, kind, s.DSN()), Dialect: dialect}))
		})
	}
	b.Run("SQLite", func(b *testing.B) {
		path := filepath.Join(b.TempDir(), "rsc.db")
		benchmark(b, open(b, sql.Config{DB: sqliteFile(b, path), Dialect: sql.SQLite}))
	})
}

func benchmark(b *testing.B, s *sql.Store) {
	for _, size := range []int{1, 100, 1000} {
		stamps := make([]port.Stamp, size)
		for i := range stamps {
			stamps[i] = port.Stamp{Life: fmt.Sprintf("%032d", i), Value: rand.Text()}
		}
		key := port.GroupKey{Stream: "orders", Group: fmt.Sprint(size)}
		v, err := s.SaveGroup(b.Context(), key, port.GroupSave{Nonce: rand.Text(), Body: bytes.Repeat([]byte("x"), 150_000), Stamps: stamps})
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("Renew%d", size), func(b *testing.B) {
			for b.Loop() {
				for i := range stamps {
					stamps[i].Value = rand.Text()
				}
				if err := s.RenewGroup(b.Context(), key, port.Renewal{Expected: v, Stamps: stamps}); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("LoadKnown%d", size), func(b *testing.B) {
			for b.Loop() {
				if _, err := s.LoadGroup(b.Context(), key, v); err != nil {
					b.Fatal(err)
				}
			}
		})
		if size > 1 {
			continue
		}
		b.Run("Save", func(b *testing.B) {
			body := bytes.Repeat([]byte("x"), 150_000)
			for b.Loop() {
				if v, err = s.SaveGroup(b.Context(), key, port.GroupSave{Expected: v, Nonce: rand.Text(), Body: body}); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("Ping", func(b *testing.B) {
			for b.Loop() {
				if _, err := s.Ping(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
