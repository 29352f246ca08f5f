package redis_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/redis-stream-coordinator/rsc/adapters/redis"
	"github.com/redis-stream-coordinator/rsc/adapters/redis/internal/redistest"
	"github.com/redis-stream-coordinator/rsc/core/port"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// oldRecord writes what a program of the old form writes, and returns the body.
func oldRecord(t *testing.T, c *goredis.Client, key port.GroupKey) (body string) {
	t.Helper()
	name := "P:{" + key.Stream + ":" + key.Group + "}:metadata"
	body = fmt.Sprintf(`{"streamPrefix":%q,"consumerGroup":%q,"members":{}}`, key.Stream, key.Group)
	if err := c.HSet(t.Context(), name, "aggregate", body, "revision", "5", "schemaVersion", "1", "layoutVersion", "1", "updatedAt", "2026-01-02T03:04:05Z").Err(); err != nil {
		t.Fatal(err)
	}
	if err := c.SAdd(t.Context(), "P:groups", name).Err(); err != nil {
		t.Fatal(err)
	}
	return body
}

func load(t *testing.T, s port.Store, key port.GroupKey) port.GroupRecord {
	t.Helper()
	r, err := s.LoadGroup(t.Context(), key, port.Version{})
	if err != nil {
		t.Fatalf("load %q: %v", key, err)
	}
	return r
}

func wantGroups(t *testing.T, s port.Store, want ...port.GroupKey) {
	t.Helper()
	if list, err := s.ListGroups(t.Context()); err != nil || !slices.Equal(list, want) {
		t.Errorf("list: got %q, %v, want %q", list, err, want)
	}
}

// TestOldForm: for each of these pairs the old key reads as another pair too,
// or not at all.
func TestOldForm(t *testing.T) {
	url := redistest.Start(t).URL()
	for _, key := range []port.GroupKey{
		{Stream: "a", Group: "b:c"},
		{Stream: "a:b", Group: "c:d"},
		{Stream: "a", Group: "b}c"},
		{Stream: "a", Group: "{b}"},
		{Stream: "a", Group: "b%3Ac"},
		{Stream: "a", Group: "100%"},
		{Stream: "a:b", Group: "c"}, // its old key is its key
	} {
		t.Run(key.String(), func(t *testing.T) {
			c := raw(t, url)
			c.FlushDB(t.Context())
			s := openStore(t, redis.Config{URL: url, KeyPrefix: "P"})
			body := oldRecord(t, c, key)

			wantGroups(t, s, key)
			r := load(t, s, key)
			if string(r.Body) != body || r.Version.Revision != 5 {
				t.Fatalf("load: %+v", r)
			}
			wantGroups(t, s, key)
			v, err := s.SaveGroup(t.Context(), key, port.GroupSave{Expected: r.Version, Nonce: "n", Body: []byte("new"), SchemaVersion: 2})
			if err != nil || v.Revision != 6 {
				t.Fatalf("save: %+v, %v", v, err)
			}
			if r := load(t, s, key); string(r.Body) != "new" || r.Version != v {
				t.Errorf("after the save: %+v", r)
			}
			wantGroups(t, s, key)
			if keys := c.Keys(t.Context(), "P:{*").Val(); len(keys) != 1 {
				t.Errorf("more than one key of the group: %q", keys)
			}
			if n := c.SCard(t.Context(), "P:groups").Val(); n != 1 {
				t.Errorf("%d names in the index", n)
			}
			if err := s.DeleteGroup(t.Context(), key, v); err != nil {
				t.Fatal(err)
			}
			if r := load(t, s, key); r.Version.Revision != 0 {
				t.Errorf("the deleted group came back: %+v", r)
			}
			wantGroups(t, s)
		})
	}
}

// TestOldFormUnderAnothersKey: what the old form wrote for one pair lies where
// another pair has its key now. Neither is taken for the other.
func TestOldFormUnderAnothersKey(t *testing.T) {
	url := redistest.Start(t).URL()
	mine, theirs := port.GroupKey{Stream: "a:b", Group: "c"}, port.GroupKey{Stream: "a", Group: "b:c"}
	c, s := raw(t, url), openStore(t, redis.Config{URL: url, KeyPrefix: "P"})
	body := oldRecord(t, c, theirs)

	wantGroups(t, s, theirs)
	if r := load(t, s, mine); r.Version.Revision != 0 || r.Body != nil {
		t.Fatalf("%q is taken for %q: %+v", theirs, mine, r)
	}
	v, err := s.SaveGroup(t.Context(), mine, port.GroupSave{Nonce: "n", Body: []byte("mine")})
	if err != nil {
		t.Fatalf("the key is still taken: %v", err)
	}
	wantGroups(t, s, theirs, mine)
	if r := load(t, s, theirs); string(r.Body) != body || r.Version.Revision != 5 {
		t.Errorf("%q was lost: %+v", theirs, r)
	}
	// Under the old key of theirs there is mine, and it must survive them.
	if err := s.DeleteGroup(t.Context(), theirs, load(t, s, theirs).Version); err != nil {
		t.Fatal(err)
	}
	if r := load(t, s, mine); r.Version != v || string(r.Body) != "mine" {
		t.Errorf("%q was deleted with %q: %+v", mine, theirs, r)
	}
	wantGroups(t, s, mine)
}

// TestOldFormBothAtOnce: the old form wrote a pair under its own key, which in
// ours is another's, and that other pair under a third.
func TestOldFormBothAtOnce(t *testing.T) {
	url := redistest.Start(t).URL()
	// The old key of the first is the key of the second in our form.
	first, second := port.GroupKey{Stream: "a", Group: "b%3Ac"}, port.GroupKey{Stream: "a", Group: "b:c"}
	c, s := raw(t, url), openStore(t, redis.Config{URL: url, KeyPrefix: "P"})
	bodies := map[port.GroupKey]string{first: oldRecord(t, c, first), second: oldRecord(t, c, second)}
	wantGroups(t, s, first, second)
	for _, key := range []port.GroupKey{second, first} {
		if r := load(t, s, key); string(r.Body) != bodies[key] {
			t.Errorf("load %q: %+v", key, r)
		}
	}
	wantGroups(t, s, first, second)
	if n := c.SCard(t.Context(), "P:groups").Val(); n != 2 {
		t.Errorf("%d names in the index", n)
	}
}

// TestOldFormInterruptedMove: the record was copied, but its old key is still
// there. The copy counts, and a delete does not bring the old one back.
func TestOldFormInterruptedMove(t *testing.T) {
	url := redistest.Start(t).URL()
	key := port.GroupKey{Stream: "a", Group: "b:c"}
	c, s := raw(t, url), openStore(t, redis.Config{URL: url, KeyPrefix: "P"})
	oldRecord(t, c, key)
	r := load(t, s, key)
	v, err := s.SaveGroup(t.Context(), key, port.GroupSave{Expected: r.Version, Nonce: "n", Body: []byte("new")})
	if err != nil {
		t.Fatal(err)
	}
	oldRecord(t, c, key)

	if r := load(t, s, key); r.Version != v {
		t.Errorf("the old record is back: %+v", r)
	}
	wantGroups(t, s, key)
	if err := s.DeleteGroup(t.Context(), key, v); err != nil {
		t.Fatal(err)
	}
	if r := load(t, s, key); r.Version.Revision != 0 {
		t.Errorf("the deleted group came back: %+v", r)
	}
	wantGroups(t, s)
}

// TestOldFormConcurrentMove: several coordinators meet the record at once.
func TestOldFormConcurrentMove(t *testing.T) {
	url := redistest.Start(t).URL()
	key := port.GroupKey{Stream: "a", Group: "b:c"}
	c := raw(t, url)
	body := oldRecord(t, c, key)
	stores := make([]*redis.Store, 4)
	for i := range stores {
		stores[i] = openStore(t, redis.Config{URL: url, KeyPrefix: "P"})
	}
	versions := make(chan port.Version)
	for _, s := range stores {
		go func() {
			r, err := s.LoadGroup(t.Context(), key, port.Version{})
			if err != nil || string(r.Body) != body {
				t.Errorf("load: %+v, %v", r, err)
			}
			versions <- r.Version
		}()
	}
	first := <-versions
	for range len(stores) - 1 {
		if v := <-versions; v != first {
			t.Errorf("one loaded %+v, another %+v", first, v)
		}
	}
}

// TestOldFormDamaged: a record that may be one of two pairs' and does not say
// whose is neither's.
func TestOldFormDamaged(t *testing.T) {
	url := redistest.Start(t).URL()
	c, s := raw(t, url), openStore(t, redis.Config{URL: url, KeyPrefix: "P"})
	oldRecord(t, c, port.GroupKey{Stream: "a", Group: "b:c"})
	for _, aggregate := range []string{"", "{", "[]", `{"streamPrefix":"a"}`, `{"streamPrefix":1,"consumerGroup":"b:c"}`} {
		c.HSet(t.Context(), "P:{a:b:c}:metadata", "aggregate", aggregate)
		for _, key := range []port.GroupKey{{Stream: "a", Group: "b:c"}, {Stream: "a:b", Group: "c"}} {
			_, err := s.LoadGroup(t.Context(), key, port.Version{})
			if !errors.Is(err, protocol.ErrCorrupt) || !strings.Contains(err.Error(), "P:{a:b:c}:metadata") {
				t.Errorf("aggregate %q, load %q: %v", aggregate, key, err)
			}
		}
		wantGroups(t, s, port.GroupKey{Stream: "a:b", Group: "c"}) // as the key reads
	}
}
