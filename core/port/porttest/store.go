package porttest

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/redis-stream-coordinator/rsc/core/port"
)

// Store runs the suite for stores. open returns an empty store for one test.
func Store(t *testing.T, open func(t *testing.T) port.Store) {
	t.Helper()
	for _, test := range []struct {
		name string
		run  func(*testing.T, port.Store)
	}{
		{"Identity", testIdentity},
		{"Ping", testPing},
		{"AbsentGroup", testAbsentGroup},
		{"CreateGroup", testCreateGroup},
		{"CreateGroupOnce", testCreateGroupOnce},
		{"GroupConditions", testGroupConditions},
		{"AnyInstance", testAnyInstance},
		{"ReliedStamps", testReliedStamps},
		{"TakeOrRenew", testTakeOrRenew},
		{"SaveWritesWhatLiesBeside", testSaveWritesWhatLiesBeside},
		{"RenewWritesWhatLiesBeside", testRenewWritesWhatLiesBeside},
		{"LoadShowsOneMoment", testLoadShowsOneMoment},
		{"KnownBody", testKnownBody},
		{"DeleteGroup", testDeleteGroup},
		{"RecreateGroup", testRecreateGroup},
		{"ListGroups", testListGroups},
		{"ManyMembers", testManyMembers},
		{"GroupCounter", testGroupCounter},
		{"AbsentStream", testAbsentStream},
		{"StreamLife", testStreamLife},
		{"StreamConditions", testStreamConditions},
		{"CreateStreamOnce", testCreateStreamOnce},
		{"StreamCounter", testStreamCounter},
		{"ListStreams", testListStreams},
		{"Names", testNames},
		{"Bytes", testBytes},
		{"BigBody", testBigBody},
		{"OwnCopies", testOwnCopies},
		{"NoNonce", testNoNonce},
		{"EndedContext", testEndedContext},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, open(t)) })
	}
}

// orders is the group that most tests are about.
var orders = port.GroupKey{Stream: "orders", Group: "billing"}

// nonce returns a random id that no other write has.
func nonce() string { return rand.Text() }

// snapshot is all that a store shows of one group.
type snapshot struct {
	record  port.Record
	stamps  map[string]string
	reports map[string][]byte
}

func look(t *testing.T, s port.Store, key port.GroupKey) snapshot {
	t.Helper()
	r, err := s.LoadGroup(t.Context(), key, port.Version{})
	if err != nil {
		t.Fatalf("load group %q: %v", key, err)
	}
	reports, err := s.Reports(t.Context(), key)
	if err != nil {
		t.Fatalf("reports of group %q: %v", key, err)
	}
	return snapshot{record: r.Record, stamps: r.Stamps, reports: reports}
}

func (a snapshot) equal(b snapshot) bool {
	return sameRecord(a.record, b.record) && maps.Equal(a.stamps, b.stamps) && maps.EqualFunc(a.reports, b.reports, bytes.Equal)
}

func sameRecord(a, b port.Record) bool {
	return a.Version == b.Version && (a.Body == nil) == (b.Body == nil) && bytes.Equal(a.Body, b.Body)
}

// wantUnchanged fails when the group differs from what it was.
func wantUnchanged(t *testing.T, s port.Store, key port.GroupKey, before snapshot) {
	t.Helper()
	if after := look(t, s, key); !after.equal(before) {
		t.Errorf("group %q was changed\nbefore %+v\nafter  %+v", key, before, after)
	}
}

func wantConflict(t *testing.T, what string, err error) {
	t.Helper()
	if !errors.Is(err, port.ErrConflict) {
		t.Errorf("%s: got %v, want ErrConflict", what, err)
	}
}

// save writes a group that must be written.
func save(t *testing.T, s port.Store, key port.GroupKey, g port.GroupSave) port.Version {
	t.Helper()
	if g.Nonce == "" {
		g.Nonce = nonce()
	}
	v, err := s.SaveGroup(t.Context(), key, g)
	if err != nil {
		t.Fatalf("save group %q at %+v: %v", key, g.Expected, err)
	}
	want := port.Version{Instance: v.Instance, Revision: g.Expected.Revision + 1, Nonce: g.Nonce}
	if v != want || v.Instance == "" {
		t.Fatalf("save group %q: version %+v, want %+v", key, v, want)
	}
	return v
}

func saveStream(t *testing.T, s port.Store, prefix string, expected port.Version, body []byte) port.Version {
	t.Helper()
	n := nonce()
	v, err := s.SaveStream(t.Context(), prefix, port.StreamSave{Expected: expected, Nonce: n, Body: body})
	if err != nil {
		t.Fatalf("save stream %q at %+v: %v", prefix, expected, err)
	}
	want := port.Version{Instance: v.Instance, Revision: expected.Revision + 1, Nonce: n}
	if v != want || v.Instance == "" {
		t.Fatalf("save stream %q: version %+v, want %+v", prefix, v, want)
	}
	return v
}

func loadStream(t *testing.T, s port.Store, prefix string) port.Record {
	t.Helper()
	r, err := s.LoadStream(t.Context(), prefix)
	if err != nil {
		t.Fatalf("load stream %q: %v", prefix, err)
	}
	return r
}

// instanceOf returns the instance that answers for a group.
func instanceOf(t *testing.T, s port.Store, key port.GroupKey) string {
	t.Helper()
	return named(t, look(t, s, key).record)
}

// streamInstance returns the instance that answers for a stream.
func streamInstance(t *testing.T, s port.Store, prefix string) string {
	t.Helper()
	return named(t, loadStream(t, s, prefix))
}

func named(t *testing.T, r port.Record) string {
	t.Helper()
	if r.Version.Instance == "" {
		t.Fatal("load: the store has no instance")
	}
	return r.Version.Instance
}

func listGroups(t *testing.T, s port.Store) []port.GroupKey {
	t.Helper()
	keys, err := s.ListGroups(t.Context())
	if err != nil {
		t.Fatalf("list groups: %v", err)
	}
	return keys
}

func listStreams(t *testing.T, s port.Store) []string {
	t.Helper()
	prefixes, err := s.ListStreams(t.Context())
	if err != nil {
		t.Fatalf("list streams: %v", err)
	}
	return prefixes
}

func wantList[T comparable](t *testing.T, what string, got, want []T) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("list of %s\ngot  %#v\nwant %#v", what, got, want)
	}
}

// notAt are conditions that do not hold for a record that is at version v.
func notAt(v port.Version) map[string]port.Version {
	with := func(change func(*port.Version)) port.Version {
		changed := v
		change(&changed)
		return changed
	}
	return map[string]port.Version{
		"no record":        {},
		"no record there":  {Instance: v.Instance},
		"revision before":  with(func(v *port.Version) { v.Revision-- }),
		"revision after":   with(func(v *port.Version) { v.Revision++ }),
		"another nonce":    with(func(v *port.Version) { v.Nonce = nonce() }),
		"no nonce":         with(func(v *port.Version) { v.Nonce = "" }),
		"another instance": with(func(v *port.Version) { v.Instance = "another-" + v.Instance }),
	}
}

// together calls f n times at once and returns what the calls returned.
func together(n int, f func(i int) error) []error {
	errs := make([]error, n)
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			<-start
			errs[i] = f(i)
		})
	}
	close(start)
	wg.Wait()
	return errs
}

// oneWinner fails unless one of the calls succeeded and all others met
// ErrConflict; it returns the winner.
func oneWinner(t *testing.T, errs []error) int {
	t.Helper()
	winner := -1
	for i, err := range errs {
		switch {
		case err == nil && winner == -1:
			winner = i
		case err == nil:
			t.Fatalf("both %d and %d won", winner, i)
		case !errors.Is(err, port.ErrConflict):
			t.Fatalf("call %d: got %v, want ErrConflict", i, err)
		}
	}
	if winner == -1 {
		t.Fatal("nobody won")
	}
	return winner
}

func body(format string, args ...any) []byte { return fmt.Appendf(nil, format, args...) }

// testPing: the store that is there names an instance, always the same.
func testPing(t *testing.T, s port.Store) {
	var names []string
	for range 2 {
		name, err := s.Ping(t.Context())
		if err != nil || name == "" {
			t.Fatalf("ping: instance %q, %v", name, err)
		}
		names = append(names, name)
	}
	if names[0] != names[1] {
		t.Errorf("ping: instance %q, then %q", names[0], names[1])
	}
}

// testIdentity: an empty store draws an id, and keeps it. Who knows another id
// than the store's has seen it emptied, and all others hear of that.
func testIdentity(t *testing.T, s port.Store) {
	first, err := s.Identity(t.Context(), "")
	if err != nil || first.ID == "" || first.Emptied {
		t.Fatalf("the identity of an empty store: %+v, %v", first, err)
	}
	for _, known := range []string{"", first.ID} {
		again, err := s.Identity(t.Context(), known)
		if err != nil || again != (port.Identity{ID: first.ID}) {
			t.Fatalf("asked again, knowing %q: %+v, %v, want the id %q", known, again, err, first.ID)
		}
	}
	for _, known := range []string{"another", "", first.ID} {
		again, err := s.Identity(t.Context(), known)
		if err != nil || again != (port.Identity{ID: first.ID, Emptied: true}) {
			t.Fatalf("asked knowing %q: %+v, %v, want the id %q of a store that was emptied", known, again, err, first.ID)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Identity(ended, ""); err == nil {
		t.Error("an ended context is served")
	}
}
