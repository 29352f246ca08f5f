package cli

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// ask runs a command of an operator against the world's coordinator.
func (w *world) ask(t *testing.T, args ...string) (code int, out, complaint string) {
	t.Helper()
	c := start(t, w.environ, nil, args...)
	code = c.wait(t)
	return code, c.out.String(), c.err.String()
}

// must runs a command that has to succeed.
func (w *world) must(t *testing.T, args ...string) string {
	t.Helper()
	code, out, complaint := w.ask(t, args...)
	if code != 0 {
		t.Fatalf("rsc %s: exit code %d\n%s%s", strings.Join(args, " "), code, out, complaint)
	}
	return out
}

func TestOperatorsCommands(t *testing.T) {
	w := newWorld(t)
	inGroup := []string{"--stream", "orders", "--group", "billing"}
	with := func(command string, more ...string) []string {
		return append(append(strings.Fields(command), inGroup...), more...)
	}
	wants := func(out string, parts ...string) {
		t.Helper()
		for _, part := range parts {
			if !strings.Contains(out, part) {
				t.Errorf("%q is missing from\n%s", part, out)
			}
		}
	}
	wants(w.must(t, "streams"), "STREAM", "orders", "billing")
	wants(w.must(t, "streams", "create", "--stream", "bills", "--shards", "3"), "bills", "3")
	wants(w.must(t, "streams", "show", "--stream", "bills", "-o", "json"), `"shardCount": 3`)
	wants(w.must(t, "groups", "create", "--stream", "bills", "--group", "x"), "bills", "EMPTY")
	wants(w.must(t, "groups", "delete", "--stream", "bills", "--group", "x", "--reason", "test"), "x")
	wants(w.must(t, "streams", "delete", "--stream", "bills", "--reason", "test", "--data"), "bills")
	wants(w.must(t, with("explain")...), "NO_MEMBER", "nobody reads it")

	if code, out := w.produce(t, orders(20, 10), "--key-field", "customer"); code != 0 {
		t.Fatalf("exit code %d:\n%s", code, out)
	}
	wants(w.must(t, "groups", "--stream", "orders"), "LAG")
	lag := regexp.MustCompile(`EMPTY +0 +0 / 4 +0 +20 +0 `)
	eventually(t, "the lag is shown", func() bool { return lag.MatchString(w.must(t, "groups", "--stream", "orders")) })
	consumers := []*command{w.consume(t, "--member", "one"), w.consume(t, "--member", "two")}
	eventually(t, "both read", func() bool {
		out := w.must(t, with("members")...)
		return strings.Count(out, "ACTIVE") == 2 && len(printed(t, consumers[0].out.String(), consumers[1].out.String())) >= 20
	})
	eventually(t, "all is settled", func() bool {
		return strings.Contains(w.must(t, with("explain")...), "All 4 shards of orders are read as they should be.")
	})
	wants(w.must(t, with("explain", "--shard", "0")...), "orders:0", "NONE", "fencing token", "lag")
	wants(w.must(t, with("groups show")...), "SHARD", "one", "two")
	wants(w.must(t, with("groups timings")...), "300ms", "15s")
	wants(w.must(t, with("groups timings", "--lease", "20s", "--reason", "test")...), "20s")

	wants(w.must(t, with("drain", "--member", "one", "--reason", "test", "--wait", "1m")...), "one", "DRAINING")
	eventually(t, "two reads all", func() bool {
		var list protocol.MemberList
		if err := json.Unmarshal([]byte(w.must(t, with("members", "-o", "json")...)), &list); err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(list.Members, func(m protocol.Member) bool { return m.MemberID == "two" })
		return i >= 0 && len(list.Members[i].CurrentAssignment) == 4
	})
	wants(w.must(t, with("drain", "--member", "one", "--reason", "test", "--undo")...), "ACTIVE")
	wants(w.must(t, "repair", "--reason", "test"), "ADDED")

	for _, refused := range []struct {
		args []string
		says string
	}{
		{with("drain", "--member", "none", "--reason", "test"), "MEMBER_NOT_FOUND"},
		{with("explain", "--shard", "9"), "INVALID_REQUEST"},
		{[]string{"members", "--stream", "none", "--group", "none"}, "GROUP_NOT_FOUND"},
		{[]string{"streams", "--username", "nobody"}, "UNAUTHORIZED"},
		{[]string{"streams", "--coordinator", "http://127.0.0.1:1"}, "refused"},
		{[]string{"streams", "--base-path", "/none"}, "ROUTE_NOT_FOUND"},
	} {
		code, _, complaint := w.ask(t, refused.args...)
		if code != 1 || !strings.Contains(complaint, refused.says) {
			t.Errorf("rsc %s: exit code %d, %q lacks %s", strings.Join(refused.args, " "), code, complaint, refused.says)
		}
	}
}

func TestOperatorsFlags(t *testing.T) {
	for _, wrong := range []struct {
		args string
		says string
	}{
		{"members", "--stream is needed"},
		{"members --stream a", "--group is needed"},
		{"streams --output xml", "--output must be table or json"},
		{"streams --coordinator localhost:8080", "--coordinator must be a URL"},
		{"streams --base-path a{b", "--base-path"},
		{"streams --timeout 0s", "--timeout"},
		{"streams delete --stream a", "--reason is needed"},
		{"drain --stream a --group b --member c", "--reason is needed"},
		{"repair", "--reason is needed"},
		{"groups timings --stream a --group b --lease 3s", "--reason is needed"},
		{"streams nothing", `there is no command "nothing"`},
	} {
		c := start(t, nil, nil, strings.Fields(wrong.args)...)
		if code := c.wait(t); code != 2 || !strings.Contains(c.err.String(), wrong.says) {
			t.Errorf("rsc %s: exit code %d, %q lacks %q", wrong.args, code, c.err.String(), wrong.says)
		}
	}
}

// TestOperatorAsksTheNext: a coordinator that is away is passed over, and what may have
// been carried out is not asked for twice.
func TestOperatorAsksTheNext(t *testing.T) {
	var asked atomic.Int32
	breaks := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		asked.Add(1)
		panic(http.ErrAbortHandler)
	}))
	defer breaks.Close()
	answers := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"streams":[]}`))
	}))
	defer answers.Close()
	run := func(args ...string) int { return start(t, nil, nil, args...).wait(t) }
	if code := run("streams", "--coordinator", "http://127.0.0.1:1,"+breaks.URL+","+answers.URL); code != 0 || asked.Load() == 0 {
		t.Errorf("a list: exit code %d, asked %d times", code, asked.Load())
	}
	if code := run("repair", "--reason", "test", "--coordinator", "http://127.0.0.1:1,"+answers.URL); code != 0 {
		t.Errorf("a change, where nobody listens first: exit code %d", code)
	}
	if code := run("repair", "--reason", "test", "--coordinator", breaks.URL+","+answers.URL); code != 1 {
		t.Errorf("a change whose answer was lost: exit code %d", code)
	}
}

func TestTablesOfShardsAndTimes(t *testing.T) {
	for want, shards := range map[string]protocol.Shards{"": {}, "3": {3}, "0-3,7": {0, 1, 2, 3, 7}, "0,2,4-5": {0, 2, 4, 5}} {
		if got := shardList(shards); got != want {
			t.Errorf("%v is shown as %q, want %q", shards, got, want)
		}
	}
	for want, d := range map[string]time.Duration{"0s": -time.Second, "12ms": 12*time.Millisecond + 345, "1.2s": 1234 * time.Millisecond, "1m1s": 61*time.Second + 200*time.Millisecond} {
		if got := short(d); got != want {
			t.Errorf("%s is shown as %q, want %q", d, got, want)
		}
	}
	if got := plain("a\x1b[31mb\tc\nd\u0085"); got != "a [31mb c d " {
		t.Errorf("control characters are shown as %q", got)
	}
}
