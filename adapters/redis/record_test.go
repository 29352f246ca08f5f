package redis_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/redis-stream-coordinator/rsc/adapters/redis"
	"github.com/redis-stream-coordinator/rsc/adapters/redis/internal/redistest"
	"github.com/redis-stream-coordinator/rsc/core/port"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

var orders = port.GroupKey{Stream: "orders", Group: "billing"}

const ordersKey = "P:{orders:billing}:metadata"

// TestHashes is golden: other programs and operators' scripts read these fields.
func TestHashes(t *testing.T) {
	url := redistest.Start(t).URL()
	c, s := raw(t, url), openStore(t, redis.Config{URL: url, KeyPrefix: "P"})
	if _, err := s.SaveGroup(t.Context(), orders, port.GroupSave{
		Nonce: "n1", Body: []byte(`{"a":1}`), SchemaVersion: 2, UpdatedAt: "2026-01-02T03:04:05Z",
		Stamps: []port.Stamp{{Life: "x", Value: "7"}}, Reports: []port.Report{{Life: "x", Body: []byte("r")}},
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.SaveStream(t.Context(), "orders", port.StreamSave{Nonce: "n2", Body: []byte(`{"b":2}`)}); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]map[string]string{
		ordersKey: {
			"aggregate": `{"a":1}`, "revision": "1", "nonce": "n1", "schemaVersion": "2", "layoutVersion": "1", "updatedAt": "2026-01-02T03:04:05Z",
		},
		"P:{orders:billing}:live":   {"x": "7"},
		"P:{orders:billing}:report": {"x": "r"},
		"P:{orders}:stream":         {"record": `{"b":2}`, "revision": "1", "nonce": "n2", "layoutVersion": "1"},
	} {
		if got := c.HGetAll(t.Context(), key).Val(); !maps.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", key, got, want)
		}
	}
	for set, want := range map[string]string{"P:groups": ordersKey, "P:streams": "P:{orders}:stream"} {
		if got := c.SMembers(t.Context(), set).Val(); !slices.Equal(got, []string{want}) {
			t.Errorf("%s: got %q, want %q", set, got, want)
		}
	}
	keys := c.Keys(t.Context(), "*").Val()
	slices.Sort(keys)
	want := []string{
		"P:groups", "P:store-id", "P:streams", "P:{orders:billing}:live", ordersKey, "P:{orders:billing}:report", "P:{orders}:stream",
	}
	slices.Sort(want)
	if !slices.Equal(keys, want) {
		t.Errorf("keys: got %q, want %q", keys, want)
	}

	// Nothing is left of what is deleted.
	v, _ := s.LoadGroup(t.Context(), orders, port.Version{})
	if err := s.DeleteGroup(t.Context(), orders, v.Version); err != nil {
		t.Fatal(err)
	}
	r, _ := s.LoadStream(t.Context(), "orders")
	if err := s.DeleteStream(t.Context(), "orders", r.Version); err != nil {
		t.Fatal(err)
	}
	if got := c.Keys(t.Context(), "*").Val(); !slices.Equal(got, []string{"P:store-id"}) {
		t.Errorf("keys left behind: %q", got)
	}
}

// TestStoreID: the first to open the store draws it, the next ones find it.
func TestStoreID(t *testing.T) {
	url := redistest.Start(t).URL()
	c := raw(t, url)
	openStore(t, redis.Config{URL: url, KeyPrefix: "P"})
	id := c.Get(t.Context(), "P:store-id").Val()
	openStore(t, redis.Config{URL: url, KeyPrefix: "P"})
	if again := c.Get(t.Context(), "P:store-id").Val(); id == "" || id != again {
		t.Errorf("the store's id was %q and became %q", id, again)
	}
}

// TestRecordOfAnotherProgram: five fields, no nonce, as the existing
// implementation writes them.
func TestRecordOfAnotherProgram(t *testing.T) {
	url := redistest.Start(t).URL()
	c, s := raw(t, url), openStore(t, redis.Config{URL: url, KeyPrefix: "P"})
	aggregate := `{"streamPrefix":"orders","consumerGroup":"billing","storeRevision":41}`
	c.HSet(t.Context(), ordersKey, "aggregate", aggregate, "revision", "41", "schemaVersion", "1", "layoutVersion", "1", "updatedAt", "2026-01-02T03:04:05Z")
	c.SAdd(t.Context(), "P:groups", ordersKey)

	if list, err := s.ListGroups(t.Context()); err != nil || !slices.Equal(list, []port.GroupKey{orders}) {
		t.Errorf("list: %v, %v", list, err)
	}
	r, err := s.LoadGroup(t.Context(), orders, port.Version{})
	if err != nil || string(r.Body) != aggregate || r.Version.Revision != 41 || r.Version.Nonce != "" {
		t.Fatalf("load: %+v, %v", r, err)
	}
	if err := s.RenewGroup(t.Context(), orders, port.Renewal{Expected: r.Version, Stamps: []port.Stamp{{Life: "x", Value: "1"}}}); err != nil {
		t.Errorf("renew: %v", err)
	}
	wrong := r.Version
	wrong.Nonce = "n0"
	if _, err := s.SaveGroup(t.Context(), orders, port.GroupSave{Expected: wrong, Nonce: "n1", Body: []byte("new")}); !errors.Is(err, port.ErrConflict) {
		t.Errorf("save over a nonce that is not there: %v", err)
	}
	v, err := s.SaveGroup(t.Context(), orders, port.GroupSave{Expected: r.Version, Nonce: "n1", Body: []byte("new"), SchemaVersion: 2})
	if err != nil || v.Revision != 42 || v.Nonce != "n1" {
		t.Fatalf("save: %+v, %v", v, err)
	}
	if got := c.HMGet(t.Context(), ordersKey, "revision", "nonce", "schemaVersion").Val(); got[0] != "42" || got[1] != "n1" || got[2] != "2" {
		t.Errorf("after the save: %v", got)
	}
}

// TestDamagedRecords fail for whoever loads them, and for nobody else.
func TestDamagedRecords(t *testing.T) {
	url := redistest.Start(t).URL()
	c := raw(t, url)
	for name, damage := range map[string]struct {
		do   func(key string)
		want string
	}{
		"no aggregate":          {func(key string) { c.HDel(t.Context(), key, "aggregate", "record") }, "has no field"},
		"no revision":           {func(key string) { c.HDel(t.Context(), key, "revision") }, "revision"},
		"revision not a number": {func(key string) { c.HSet(t.Context(), key, "revision", "many") }, `"many"`},
		"revision zero":         {func(key string) { c.HSet(t.Context(), key, "revision", "0") }, `"0"`},
		"not a hash":            {func(key string) { c.Del(t.Context(), key); c.Set(t.Context(), key, "x", 0) }, "not a hash"},
	} {
		t.Run(name, func(t *testing.T) {
			prefix := freshPrefix()
			s := openStore(t, redis.Config{URL: url, KeyPrefix: prefix})
			healthy := port.GroupKey{Stream: "a", Group: "b"}
			var versions []port.Version
			for _, key := range []port.GroupKey{healthy, orders} {
				v, err := s.SaveGroup(t.Context(), key, port.GroupSave{Nonce: "n", Body: []byte("x")})
				if err != nil {
					t.Fatal(err)
				}
				versions = append(versions, v)
			}
			sv, err := s.SaveStream(t.Context(), "orders", port.StreamSave{Nonce: "n", Body: []byte("x")})
			if err != nil {
				t.Fatal(err)
			}
			groupKey, streamKey := prefix+":{orders:billing}:metadata", prefix+":{orders}:stream"
			damage.do(groupKey)
			damage.do(streamKey)

			_, err = s.LoadGroup(t.Context(), orders, port.Version{})
			checkDamage(t, err, groupKey, damage.want)
			_, err = s.LoadStream(t.Context(), "orders")
			checkDamage(t, err, streamKey, damage.want)

			// A record that is there is not taken for one that is missing.
			if _, err := s.SaveGroup(t.Context(), orders, port.GroupSave{Nonce: "n2", Body: []byte("y")}); err == nil {
				t.Error("a damaged group was created again")
			}
			if _, err := s.SaveStream(t.Context(), "orders", port.StreamSave{Nonce: "n2", Body: []byte("y")}); err == nil {
				t.Error("a damaged stream was created again")
			}
			if name != "no aggregate" { // its version is as it was
				if _, err := s.SaveGroup(t.Context(), orders, port.GroupSave{Expected: versions[1], Nonce: "n2", Body: []byte("y")}); err == nil {
					t.Error("a damaged group was saved")
				}
				if err := s.DeleteStream(t.Context(), "orders", sv); err == nil {
					t.Error("a damaged stream was deleted")
				}
			}
			if r, err := s.LoadGroup(t.Context(), healthy, port.Version{}); err != nil || r.Version != versions[0] {
				t.Errorf("the healthy group: %+v, %v", r, err)
			}
			if list, err := s.ListGroups(t.Context()); err != nil || !slices.Equal(list, []port.GroupKey{healthy, orders}) {
				t.Errorf("list: %v, %v", list, err)
			}
			if list, err := s.ListStreams(t.Context()); err != nil || !slices.Equal(list, []string{"orders"}) {
				t.Errorf("list of streams: %v, %v", list, err)
			}
		})
	}
}

func checkDamage(t *testing.T, err error, key, want string) {
	t.Helper()
	if !errors.Is(err, protocol.ErrCorrupt) {
		t.Fatalf("got %v, want ErrCorrupt", err)
	}
	for _, part := range []string{key, want, "backup"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error does not say %q: %v", part, err)
		}
	}
}

// TestForeignKeyBeside: a key of another type beside a group stops the save
// before it has written half.
func TestForeignKeyBeside(t *testing.T) {
	url := redistest.Start(t).URL()
	c := raw(t, url)
	for _, beside := range []string{"live", "report"} {
		prefix := freshPrefix()
		s := openStore(t, redis.Config{URL: url, KeyPrefix: prefix})
		v, err := s.SaveGroup(t.Context(), orders, port.GroupSave{Nonce: "n1", Body: []byte("one")})
		if err != nil {
			t.Fatal(err)
		}
		c.Set(t.Context(), prefix+":{orders:billing}:"+beside, "mine", 0)
		stamps, reports := []port.Stamp{{Life: "x", Value: "1"}}, []port.Report{{Life: "x", Body: []byte("r")}}
		if _, err := s.SaveGroup(t.Context(), orders, port.GroupSave{Expected: v, Nonce: "n2", Body: []byte("two"), Stamps: stamps, Reports: reports}); err == nil {
			t.Errorf("%s: no error of the save", beside)
		}
		if err := s.RenewGroup(t.Context(), orders, port.Renewal{Expected: v, Stamps: stamps, Reports: reports}); err == nil {
			t.Errorf("%s: no error of the renewal", beside)
		}
		if got := c.HMGet(t.Context(), prefix+":{orders:billing}:metadata", "revision", "nonce", "aggregate").Val(); got[0] != "1" || got[1] != "n1" || got[2] != "one" {
			t.Errorf("%s: half was written: %v", beside, got)
		}
		if beside == "report" && c.Exists(t.Context(), prefix+":{orders:billing}:live").Val() != 0 {
			t.Error("half was written: stamps without reports")
		}
	}
}

// TestIndexEntriesThatStandForNothing are what a crash between the two steps of
// a create or a delete leaves: lists pass over them, and a create works.
func TestIndexEntriesThatStandForNothing(t *testing.T) {
	url := redistest.Start(t).URL()
	c, s := raw(t, url), openStore(t, redis.Config{URL: url, KeyPrefix: "P"})
	c.SAdd(t.Context(), "P:groups", ordersKey, "P:{a:b:c}:metadata", "nonsense", "P:{a:b}:group", "")
	c.SAdd(t.Context(), "P:streams", "P:{orders}:stream", "nonsense")
	if list, err := s.ListGroups(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("list: %v, %v", list, err)
	}
	if list, err := s.ListStreams(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("list of streams: %v, %v", list, err)
	}
	if _, err := s.SaveGroup(t.Context(), orders, port.GroupSave{Nonce: "n", Body: []byte("x")}); err != nil {
		t.Fatal(err)
	}
	if list, err := s.ListGroups(t.Context()); err != nil || !slices.Equal(list, []port.GroupKey{orders}) {
		t.Errorf("list: %v, %v", list, err)
	}
}

// TestLeftoversBesideACreate: stamps of a group whose record was lost are not
// those of the one that is created in its place.
func TestLeftoversBesideACreate(t *testing.T) {
	url := redistest.Start(t).URL()
	c, s := raw(t, url), openStore(t, redis.Config{URL: url, KeyPrefix: "P"})
	c.HSet(t.Context(), "P:{orders:billing}:live", "old", "1")
	c.HSet(t.Context(), "P:{orders:billing}:report", "old", "1")
	if _, err := s.SaveGroup(t.Context(), orders, port.GroupSave{Nonce: "n", Body: []byte("x"), Stamps: []port.Stamp{{Life: "new", Value: "1"}}}); err != nil {
		t.Fatal(err)
	}
	r, err := s.LoadGroup(t.Context(), orders, port.Version{})
	if err != nil || !maps.Equal(r.Stamps, map[string]string{"new": "1"}) {
		t.Errorf("stamps %v, %v", r.Stamps, err)
	}
	if reports, err := s.Reports(t.Context(), orders); err != nil || len(reports) != 0 {
		t.Errorf("reports %v, %v", reports, err)
	}
}

func TestMaxBodyBytes(t *testing.T) {
	url := startMini(t)
	s := openStore(t, redis.Config{URL: url})
	big := make([]byte, redis.MaxBodyBytes+1)
	if _, err := s.SaveGroup(t.Context(), orders, port.GroupSave{Nonce: "n", Body: big}); !errors.Is(err, port.ErrTooLarge) {
		t.Errorf("a group of one byte too many: %v", err)
	}
	if _, err := s.SaveStream(t.Context(), "orders", port.StreamSave{Nonce: "n", Body: big}); !errors.Is(err, port.ErrTooLarge) {
		t.Errorf("a stream of one byte too many: %v", err)
	}
	if n := raw(t, url).SCard(t.Context(), "redis-stream:coord:groups").Val(); n != 0 {
		t.Errorf("%d names in the index for a group that was refused", n)
	}
}
