package redis_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/adapters/redis"
	"github.com/redis-stream-coordinator/rsc/adapters/redis/internal/redistest"
	"github.com/redis-stream-coordinator/rsc/core/port"
)

// TestLostReply: the write was carried out and its answer lost. It is reported
// as unknown, it is not sent again, and the nonce tells what happened.
func TestLostReply(t *testing.T) {
	server := redistest.Start(t)
	proxy := redistest.StartProxy(t, server.Addr)
	c, s := raw(t, server.URL()), openStore(t, redis.Config{URL: proxy.URL(), KeyPrefix: "P"})

	v, err := s.SaveGroup(t.Context(), orders, port.GroupSave{Nonce: "n1", Body: []byte("one")})
	if err != nil {
		t.Fatal(err)
	}
	sv, err := s.SaveStream(t.Context(), "orders", port.StreamSave{Nonce: "n1", Body: []byte("one")})
	if err != nil {
		t.Fatal(err)
	}
	// The server knows the scripts from here on, so each call is one EVALSHA.
	if v, err = s.SaveGroup(t.Context(), orders, port.GroupSave{Expected: v, Nonce: "n2", Body: []byte("two")}); err != nil {
		t.Fatal(err)
	}
	if err := s.RenewGroup(t.Context(), orders, port.Renewal{Expected: v}); err != nil {
		t.Fatal(err)
	}

	lost := func(name string, call func() error) {
		t.Helper()
		before, gone := calls(t, c, "evalsha"), proxy.Lost.Load()
		proxy.LoseNext()
		err := call()
		if err == nil || errors.Is(err, port.ErrConflict) || errors.Is(err, port.ErrTooLarge) {
			t.Errorf("%s: got %v, want an unknown outcome", name, err)
		}
		if !strings.Contains(err.Error(), "no answer") {
			t.Errorf("%s: the error does not say that there was no answer: %v", name, err)
		}
		if proxy.Lost.Load() != gone+1 {
			t.Fatalf("%s: no answer was lost", name)
		}
		if n := calls(t, c, "evalsha") - before; n != 1 {
			t.Errorf("%s: the script was sent %d times", name, n)
		}
	}
	lost("save", func() error {
		_, err := s.SaveGroup(t.Context(), orders, port.GroupSave{Expected: v, Nonce: "n3", Body: []byte("three")})
		return err
	})
	r := load(t, s, orders)
	if r.Version.Nonce != "n3" || r.Version.Revision != 3 || string(r.Body) != "three" {
		t.Errorf("after the save: %+v", r)
	}
	lost("renewal", func() error {
		return s.RenewGroup(t.Context(), orders, port.Renewal{Expected: r.Version, Stamps: []port.Stamp{{Life: "x", Value: "1"}}})
	})
	if r := load(t, s, orders); r.Stamps["x"] != "1" {
		t.Errorf("after the renewal: %+v", r)
	}
	lost("save of the stream", func() error {
		_, err := s.SaveStream(t.Context(), "orders", port.StreamSave{Expected: sv, Nonce: "n2", Body: []byte("two")})
		return err
	})
	if sr, err := s.LoadStream(t.Context(), "orders"); err != nil || sr.Version.Nonce != "n2" || sr.Version.Revision != 2 {
		t.Errorf("after the save of the stream: %+v, %v", sr, err)
	}
	if err := s.DeleteGroup(t.Context(), orders, port.Version{Revision: 9}); !errors.Is(err, port.ErrConflict) {
		t.Fatal(err) // teaches the server the script
	}
	lost("delete", func() error { return s.DeleteGroup(t.Context(), orders, r.Version) })
	if r := load(t, s, orders); r.Version.Revision != 0 {
		t.Errorf("after the delete: %+v", r)
	}
	// The name is still in the index, as after a crash: no list shows it.
	wantGroups(t, s)
}

// TestScriptFlush: a server that forgot the scripts is taught them again.
func TestScriptFlush(t *testing.T) {
	url := redistest.Start(t).URL()
	c, s := raw(t, url), openStore(t, redis.Config{URL: url, KeyPrefix: "P"})
	var v port.Version
	for range 3 {
		var err error
		if v, err = s.SaveGroup(t.Context(), orders, port.GroupSave{Expected: v, Nonce: "n", Body: []byte("x")}); err != nil {
			t.Fatal(err)
		}
		c.ScriptFlush(t.Context())
		if err := s.RenewGroup(t.Context(), orders, port.Renewal{Expected: v, Stamps: []port.Stamp{{Life: "x", Value: "1"}}}); err != nil {
			t.Fatal(err)
		}
		c.ScriptFlush(t.Context())
		if r := load(t, s, orders); r.Version != v {
			t.Errorf("load: %+v, want %+v", r.Version, v)
		}
		c.ScriptFlush(t.Context())
	}
	if v.Revision != 3 {
		t.Errorf("revision %d after 3 saves", v.Revision)
	}
}

// TestRestart: another instance answers, though with the same data. Whatever is
// tied to the one before is refused until it is loaded anew.
func TestRestart(t *testing.T) {
	server := redistest.Start(t)
	s := openStore(t, redis.Config{URL: server.URL(), KeyPrefix: "P"})
	v, err := s.SaveGroup(t.Context(), orders, port.GroupSave{Nonce: "n1", Body: []byte("one"), Stamps: []port.Stamp{{Life: "x", Value: "1"}}})
	if err != nil {
		t.Fatal(err)
	}
	sv, err := s.SaveStream(t.Context(), "orders", port.StreamSave{Nonce: "n1", Body: []byte("one")})
	if err != nil {
		t.Fatal(err)
	}
	server.Restart()

	_, err = s.SaveGroup(t.Context(), orders, port.GroupSave{Expected: v, Nonce: "n2", Body: []byte("two")})
	if !errors.Is(err, port.ErrConflict) {
		t.Errorf("save: %v, want ErrConflict", err)
	}
	if err := s.RenewGroup(t.Context(), orders, port.Renewal{Expected: v, Stamps: []port.Stamp{{Life: "x", Value: "2"}}}); !errors.Is(err, port.ErrConflict) {
		t.Errorf("renewal: %v, want ErrConflict", err)
	}
	if err := s.DeleteGroup(t.Context(), orders, v); !errors.Is(err, port.ErrConflict) {
		t.Errorf("delete: %v, want ErrConflict", err)
	}
	if _, err := s.SaveStream(t.Context(), "orders", port.StreamSave{Expected: sv, Nonce: "n2", Body: []byte("two")}); !errors.Is(err, port.ErrConflict) {
		t.Errorf("save of the stream: %v, want ErrConflict", err)
	}
	r, err := s.LoadGroup(t.Context(), orders, v)
	if err != nil || r.Version.Instance == v.Instance || string(r.Body) != "one" || r.Stamps["x"] != "1" {
		t.Fatalf("load: %+v, %v; want the same data of another instance than %s", r, err, v.Instance)
	}
	if here, err := s.Ping(t.Context()); err != nil || here != r.Version.Instance {
		t.Errorf("ping: %s, %v", here, err)
	}
	if _, err := s.SaveGroup(t.Context(), orders, port.GroupSave{Expected: r.Version, Nonce: "n2", Body: []byte("two")}); err != nil {
		t.Errorf("save on what was loaded anew: %v", err)
	}
}

// TestAway: a server that is away is an error at once, and its return needs no
// help.
func TestAway(t *testing.T) {
	server := redistest.Start(t)
	s := openStore(t, redis.Config{URL: server.URL(), KeyPrefix: "P"})
	v, err := s.SaveGroup(t.Context(), orders, port.GroupSave{Nonce: "n1", Body: []byte("one")})
	if err != nil {
		t.Fatal(err)
	}
	server.Kill()
	atOnce(t, func() {
		if _, err := s.LoadGroup(t.Context(), orders, port.Version{}); err == nil {
			t.Error("a load from a server that is away succeeded")
		}
		if _, err := s.SaveGroup(t.Context(), orders, port.GroupSave{Expected: v, Nonce: "n2", Body: []byte("two")}); err == nil || errors.Is(err, port.ErrConflict) {
			t.Errorf("save: %v, want an error of the connection", err)
		}
	})
	if _, err := redis.Open(t.Context(), patient(redis.Config{URL: server.URL()})); err == nil || !strings.Contains(err.Error(), "reach redis") {
		t.Errorf("open: %v", err)
	}
}

// TestFrozen: nothing is answered. A call ends with its context's deadline, or
// after Config.Timeout.
func TestFrozen(t *testing.T) {
	server := redistest.Start(t)
	calls := map[string]struct {
		timeout, deadline time.Duration
	}{
		"deadline": {timeout: patience, deadline: 100 * time.Millisecond},
		"timeout":  {timeout: 100 * time.Millisecond, deadline: patience},
	}
	stores := make(map[string]*redis.Store)
	for name, call := range calls {
		stores[name] = openStore(t, redis.Config{URL: server.URL(), KeyPrefix: "P", Timeout: call.timeout})
	}
	s := openStore(t, redis.Config{URL: server.URL(), KeyPrefix: "P"})
	v, err := s.SaveGroup(t.Context(), orders, port.GroupSave{Nonce: "n1", Body: []byte("one")})
	if err != nil {
		t.Fatal(err)
	}
	server.Freeze()
	for name, call := range calls {
		ctx, cancel := context.WithTimeout(t.Context(), call.deadline)
		start := time.Now()
		if _, err := stores[name].SaveGroup(ctx, orders, port.GroupSave{Expected: v, Nonce: name, Body: []byte(name)}); err == nil || errors.Is(err, port.ErrConflict) {
			t.Errorf("%s: %v, want an unknown outcome", name, err)
		}
		if took := time.Since(start); took > patience/2 {
			t.Errorf("%s: it took %s", name, took)
		}
		cancel()
	}
	server.Thaw()
	// Both were in the server's hands when their senders gave up; whichever it
	// took, it took one, and the next load tells which.
	r := load(t, s, orders)
	if r.Version.Revision > 2 || r.Version.Revision == 2 && r.Version.Nonce != string(r.Body) {
		t.Errorf("load: %+v", r)
	}
}

// TestNoMemory: a server that takes no more refuses a save as a whole.
func TestNoMemory(t *testing.T) {
	url := redistest.Start(t).URL()
	c, s := raw(t, url), openStore(t, redis.Config{URL: url, KeyPrefix: "P"})
	v, err := s.SaveGroup(t.Context(), orders, port.GroupSave{Nonce: "n1", Body: []byte("one"), Stamps: []port.Stamp{{Life: "x", Value: "1"}, {Life: "y", Value: "1"}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.ConfigSet(t.Context(), "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	_, err = s.SaveGroup(t.Context(), orders, port.GroupSave{
		Expected: v, Nonce: "n2", Body: []byte("two"), Stamps: []port.Stamp{{Life: "x", Value: "2"}}, Ended: []string{"y"},
	})
	if err == nil || !strings.Contains(err.Error(), "OOM") {
		t.Errorf("save: %v, want the server's OOM", err)
	}
	if err := s.RenewGroup(t.Context(), orders, port.Renewal{Expected: v, Stamps: []port.Stamp{{Life: "x", Value: "2"}}}); err == nil {
		t.Error("renewal: no error")
	}
	if err := c.ConfigSet(t.Context(), "maxmemory", "0").Err(); err != nil {
		t.Fatal(err)
	}
	if r := load(t, s, orders); r.Version != v || string(r.Body) != "one" || r.Stamps["x"] != "1" || r.Stamps["y"] != "1" {
		t.Errorf("half was written: %+v", r)
	}
}

// TestInfoForbidden: without INFO the store's id stands in for the instance, and
// the log says what is lost by that.
func TestInfoForbidden(t *testing.T) {
	url := redistest.Start(t).URL()
	c := raw(t, url)
	if err := c.Do(t.Context(), "ACL", "SETUSER", "coordinator", "on", ">pw", "~*", "&*", "+@all", "-info").Err(); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	s := openStore(t, redis.Config{URL: url, KeyPrefix: "P", Username: "coordinator", Password: "pw", Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if !strings.Contains(log.String(), "run id") {
		t.Errorf("the log does not warn: %s", &log)
	}
	v, err := s.SaveGroup(t.Context(), orders, port.GroupSave{Nonce: "n1", Body: []byte("one")})
	if err != nil {
		t.Fatal(err)
	}
	if id := c.Get(t.Context(), "P:store-id").Val(); v.Instance != id {
		t.Errorf("instance %s, want the store's id %s", v.Instance, id)
	}
}

// TestRunID: the instance is the run id that the server tells everybody.
func TestRunID(t *testing.T) {
	url := redistest.Start(t).URL()
	info := raw(t, url).Info(t.Context(), "server").Val()
	_, rest, _ := strings.Cut(info, "run_id:")
	want, _, _ := strings.Cut(rest, "\r\n")
	if here, err := openStore(t, redis.Config{URL: url}).Ping(t.Context()); err != nil || here != want || len(here) != 40 {
		t.Errorf("instance %q, %v, want %q", here, err, want)
	}
}
