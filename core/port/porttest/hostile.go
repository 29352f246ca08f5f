package porttest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/redis-stream-coordinator/rsc/core/port"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// hostileNames are names that a careless store would cut, fold or take apart.
var hostileNames = []string{
	"a", "A", "a ", " a", "a  ", "a\u00a0", "á", "a\u0301", "ÿ", "ß", "ss", "ı", "i", "İ", "日本", "日本語", "🙂",
	"a:b", "a:b:c", "b:c", "c", ":", "::", "a:", ":a", "%", "%3A", "a%3Ab", "a%253Ab", "%%", "a%b", "a.b", "a-b", "a_b",
	"'", "\"", "`", "\\", "a'; DROP TABLE g; --", "*", "?", "[a]", "a*", "metadata", "live", "groups", "null", "0", "00", "1e3", "true",
	"a b", "a,b", "a;b", "a|b", "a=b", "a&b", "a#b", "$", "~", "^", "<a>", "..", ".",
}

// hostileGroupNames may hold braces as well; prefixes may not.
var hostileGroupNames = append([]string{
	"{", "}", "{}", "}{", "{a}", "a}b", "a{b", "%7B", "%7D", "}:metadata", "a}:metadata", "{a:b}",
}, hostileNames...)

// testNames: every pair of names is a group of its own. Each name meets those
// that colons and escapes could mix it up with.
func testNames(t *testing.T, s port.Store) {
	var keys []port.GroupKey
	for _, name := range hostileNames {
		keys = append(keys, port.GroupKey{Stream: name, Group: "a"})
	}
	for _, name := range hostileGroupNames {
		keys = append(keys, port.GroupKey{Stream: "a", Group: name}, port.GroupKey{Stream: "a:b", Group: name})
	}
	for _, stream := range []string{"a", "a:b", "a:b:c", "a%3Ab", "%3A", "a:", ":"} {
		for _, group := range []string{"c", "b:c", "b%3Ac", "b", ":c", "%3Ac", "a:b", ":", "%3A"} {
			keys = append(keys, port.GroupKey{Stream: stream, Group: group})
		}
	}
	slices.SortFunc(keys, func(a, b port.GroupKey) int {
		return cmp.Or(cmp.Compare(a.Stream, b.Stream), cmp.Compare(a.Group, b.Group))
	})
	keys = slices.Compact(keys)

	versions := make(map[port.GroupKey]port.Version, len(keys))
	for _, key := range keys {
		versions[key] = save(t, s, key, port.GroupSave{
			Body: body("%q", key), Stamps: []port.Stamp{{Life: key.Group, Value: key.Stream}}, Reports: []port.Report{{Life: key.Group, Body: body("%q", key)}},
		})
	}
	for _, prefix := range hostileNames {
		saveStream(t, s, prefix, port.Version{}, body("%q", prefix))
	}
	want := func(key port.GroupKey) snapshot {
		return snapshot{
			record:  port.Record{Version: versions[key], Body: body("%q", key)},
			stamps:  map[string]string{key.Group: key.Stream},
			reports: map[string][]byte{key.Group: body("%q", key)},
		}
	}
	for _, key := range keys {
		wantUnchanged(t, s, key, want(key))
	}
	for _, prefix := range hostileNames {
		if r := loadStream(t, s, prefix); !bytes.Equal(r.Body, body("%q", prefix)) {
			t.Errorf("stream %q has body %s", prefix, r.Body)
		}
	}
	wantList(t, "groups", listGroups(t, s), keys)
	wantList(t, "streams", listStreams(t, s), slices.Sorted(slices.Values(hostileNames)))

	var rest []port.GroupKey
	for i, key := range keys {
		if i%2 == 0 {
			rest = append(rest, key)
			continue
		}
		if err := s.DeleteGroup(t.Context(), key, versions[key]); err != nil {
			t.Fatalf("delete group %q: %v", key, err)
		}
	}
	for _, key := range rest {
		wantUnchanged(t, s, key, want(key))
	}
	wantList(t, "groups", listGroups(t, s), rest)
}

// testBytes: what is opaque to the store comes back byte for byte.
func testBytes(t *testing.T, s port.Store) {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	for name, b := range map[string][]byte{
		"every byte":       all,
		"empty":            {},
		"nothing":          nil,
		"blanks":           body(" \t\r\n {} \r\n\x00"),
		"order of members": body(`{"b":1.0,"a":1e2,"a":3}`),
		"not UTF-8":        []byte("\xff\xfe\xc3\x28"),
		"replies":          body("+OK\r\n$-1\r\n*0\r\n"),
	} {
		key := port.GroupKey{Stream: name, Group: "g"}
		life := string(all)
		v := save(t, s, key, port.GroupSave{
			Body: b, SchemaVersion: 2, UpdatedAt: "2026-01-02T03:04:05Z",
			Stamps: []port.Stamp{{Life: life, Value: life}}, Reports: []port.Report{{Life: life, Body: b}},
		})
		notNil := append([]byte{}, b...)
		wantUnchanged(t, s, key, snapshot{
			record:  port.Record{Version: v, Body: notNil},
			stamps:  map[string]string{life: life},
			reports: map[string][]byte{life: b},
		})
		save(t, s, key, port.GroupSave{Expected: v, Relied: []port.Stamp{{Life: life, Value: life}}, Body: b, Ended: []string{life}})

		sv := saveStream(t, s, name, port.Version{}, b)
		if r := loadStream(t, s, name); !sameRecord(r, port.Record{Version: sv, Body: notNil}) {
			t.Errorf("%s: stream came back as %+v", name, r)
		}
	}
}

// testBigBody: a body of the largest size that the core writes is stored, or
// refused with the record left as it is; a larger one must not do harm either.
func testBigBody(t *testing.T, s port.Store) {
	for _, size := range []int{1 << 20, protocol.MaxAggregateBytes, protocol.MaxAggregateBytes + 1} {
		key := port.GroupKey{Stream: "big", Group: fmt.Sprint(size)}
		big := bytes.Repeat([]byte("0123456789abcdef\x00\xff\r\n"), size/20+1)[:size]
		v := save(t, s, key, port.GroupSave{Body: body("small"), Stamps: []port.Stamp{{Life: "a", Value: "1"}}})
		before := look(t, s, key)
		next := port.GroupSave{Expected: v, Nonce: nonce(), Body: big, Stamps: []port.Stamp{{Life: "a", Value: "2"}}}
		v, err := s.SaveGroup(t.Context(), key, next)
		switch {
		case err == nil:
			wantUnchanged(t, s, key, snapshot{record: port.Record{Version: v, Body: big}, stamps: map[string]string{"a": "2"}})
		case errors.Is(err, port.ErrTooLarge):
			wantUnchanged(t, s, key, before)
		default:
			t.Errorf("save of %d bytes: %v", size, err)
		}

		sv := saveStream(t, s, key.Group, port.Version{}, body("small"))
		want := port.Record{Version: sv, Body: body("small")}
		sv, err = s.SaveStream(t.Context(), key.Group, port.StreamSave{Expected: sv, Nonce: nonce(), Body: big})
		if err == nil {
			want = port.Record{Version: sv, Body: big}
		} else if !errors.Is(err, port.ErrTooLarge) {
			t.Errorf("save of a stream of %d bytes: %v", size, err)
		}
		if r := loadStream(t, s, key.Group); !sameRecord(r, want) {
			t.Errorf("save of a stream of %d bytes gave %v and left %d bytes at %+v", size, err, len(r.Body), r.Version)
		}
	}
}

// testOwnCopies: what the caller does to its slices and maps stays with it.
func testOwnCopies(t *testing.T, s port.Store) {
	b, report := body("body"), body("report")
	v := save(t, s, orders, port.GroupSave{
		Body: b, Stamps: []port.Stamp{{Life: "a", Value: "1"}}, Reports: []port.Report{{Life: "a", Body: report}},
	})
	want := snapshot{
		record: port.Record{Version: v, Body: body("body")}, stamps: map[string]string{"a": "1"}, reports: map[string][]byte{"a": body("report")},
	}
	clear(b)
	clear(report)
	wantUnchanged(t, s, orders, want)
	got := look(t, s, orders)
	clear(got.record.Body)
	clear(got.reports["a"])
	maps.DeleteFunc(got.stamps, func(string, string) bool { return true })
	maps.DeleteFunc(got.reports, func(string, []byte) bool { return true })
	wantUnchanged(t, s, orders, want)

	b = body("body")
	sv := saveStream(t, s, "orders", port.Version{}, b)
	clear(b)
	clear(loadStream(t, s, "orders").Body)
	if r := loadStream(t, s, "orders"); !sameRecord(r, port.Record{Version: sv, Body: body("body")}) {
		t.Errorf("the stream was changed from outside: %q", r.Body)
	}
}

// testNoNonce: a write that nobody could recognise afterwards is refused.
func testNoNonce(t *testing.T, s port.Store) {
	if _, err := s.SaveGroup(t.Context(), orders, port.GroupSave{Body: body("x")}); err == nil {
		t.Error("a group was saved without a nonce")
	}
	if _, err := s.SaveStream(t.Context(), "orders", port.StreamSave{Body: body("x")}); err == nil {
		t.Error("a stream was saved without a nonce")
	}
	wantList(t, "groups", listGroups(t, s), nil)
	wantList(t, "streams", listStreams(t, s), nil)
}

// testEndedContext: a call that comes too late does nothing.
func testEndedContext(t *testing.T, s port.Store) {
	v := save(t, s, orders, port.GroupSave{Body: body("one"), Stamps: []port.Stamp{{Life: "a", Value: "1"}}})
	sv := saveStream(t, s, "orders", port.Version{}, body("one"))
	before := look(t, s, orders)

	cause := errors.New("the test is over")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	calls := map[string]func() error{
		"LoadGroup": func() error { _, err := s.LoadGroup(ctx, orders, port.Version{}); return err },
		"SaveGroup": func() error {
			_, err := s.SaveGroup(ctx, orders, port.GroupSave{Expected: v, Nonce: nonce(), Body: body("two")})
			return err
		},
		"create group": func() error {
			_, err := s.SaveGroup(ctx, port.GroupKey{Stream: "new", Group: "new"}, port.GroupSave{Nonce: nonce(), Body: body("two")})
			return err
		},
		"RenewGroup": func() error {
			return s.RenewGroup(ctx, orders, port.Renewal{Expected: v, Stamps: []port.Stamp{{Life: "a", Value: "2"}}})
		},
		"DeleteGroup": func() error { return s.DeleteGroup(ctx, orders, v) },
		"ListGroups":  func() error { _, err := s.ListGroups(ctx); return err },
		"Reports":     func() error { _, err := s.Reports(ctx, orders); return err },
		"LoadStream":  func() error { _, err := s.LoadStream(ctx, "orders"); return err },
		"SaveStream": func() error {
			_, err := s.SaveStream(ctx, "orders", port.StreamSave{Expected: sv, Nonce: nonce(), Body: body("two")})
			return err
		},
		"create stream": func() error {
			_, err := s.SaveStream(ctx, "new", port.StreamSave{Nonce: nonce(), Body: body("two")})
			return err
		},
		"DeleteStream": func() error { return s.DeleteStream(ctx, "orders", sv) },
		"ListStreams":  func() error { _, err := s.ListStreams(ctx); return err },
		"Ping":         func() error { _, err := s.Ping(ctx); return err },
	}
	for name, call := range calls {
		if err := call(); !errors.Is(err, cause) {
			t.Errorf("%s: got %v, want the cause of the context", name, err)
		}
	}
	wantUnchanged(t, s, orders, before)
	if r := loadStream(t, s, "orders"); !sameRecord(r, port.Record{Version: sv, Body: body("one")}) {
		t.Errorf("the stream was changed to %+v", r)
	}
	wantList(t, "groups", listGroups(t, s), []port.GroupKey{orders})
	wantList(t, "streams", listStreams(t, s), []string{"orders"})
}
