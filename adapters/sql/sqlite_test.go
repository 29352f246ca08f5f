package sql_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/redis-stream-coordinator/rsc/adapters/sql"
	"github.com/redis-stream-coordinator/rsc/core/port"
)

// TestDiskFull: a save that does not fit is refused as a whole, and what was there stays;
// when there is room again, all goes on.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	db := sqliteFile(t, sqlitePath(t))
	db.SetMaxOpenConns(1) // the limit is of the connection
	s := open(t, sql.Config{DB: db, Dialect: sql.SQLite})
	v := save(t, s, port.Version{}, port.Stamp{Life: "a", Value: "1"})
	if _, err := db.ExecContext(t.Context(), "PRAGMA max_page_count = 40"); err != nil {
		t.Fatal(err)
	}
	big := port.GroupSave{Expected: v, Nonce: "big", Body: bytes.Repeat([]byte("x"), 1<<20), Stamps: []port.Stamp{{Life: "a", Value: "2"}}}
	_, err := s.SaveGroup(t.Context(), orders, big)
	if err == nil || errors.Is(err, port.ErrConflict) {
		t.Errorf("a save on a full disk: %v", err)
	}
	if r := load(t, s); r.Version != v || r.Stamps["a"] != "1" || string(r.Body) != "body" {
		t.Errorf("the record is %+v, was %+v", r, v)
	}
	if err := s.RenewGroup(t.Context(), orders, port.Renewal{Expected: v, Stamps: []port.Stamp{{Life: "a", Value: "3"}}}); err != nil {
		t.Errorf("a renewal that fits: %v", err)
	}
	if _, err := db.ExecContext(t.Context(), "PRAGMA max_page_count = 1000000"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.SaveGroup(t.Context(), orders, big); err != nil {
		t.Errorf("there is room again: %v", err)
	}
}

// TestReopenedFile: the file is the same instance, with all that was saved.
func TestReopenedFile(t *testing.T) {
	t.Parallel()
	path := sqlitePath(t)
	db := sqliteFile(t, path)
	v := save(t, open(t, sql.Config{DB: db, Dialect: sql.SQLite}), port.Version{}, port.Stamp{Life: "a", Value: "1"})
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	r := load(t, open(t, sql.Config{DB: sqliteFile(t, path), Dialect: sql.SQLite}))
	if r.Version != v || r.Stamps["a"] != "1" {
		t.Errorf("reopened at %+v, was %+v", r, v)
	}
}
