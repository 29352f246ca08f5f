package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/redis-stream-coordinator/rsc/coordinator/internal/redistest"
)

// The tests of this file run the commands against each other and a real Redis.

// world is a coordinator with a stream of four shards, and its Redis.
type world struct {
	server  *command
	environ []string
	// client looks into the Redis.
	client goredis.UniversalClient
}

var listens = regexp.MustCompile(`"url":"(http://127\.0\.0\.1:\d+)"`)

func newWorld(t *testing.T) *world {
	t.Helper()
	redis := redistest.Start(t)
	w := startWorld(t, redis.URL, "--redis", redis.URL)
	w.client = redis.Client()
	return w
}

// startWorld starts the coordinator; url is what the tools are told, args what it
// is told itself. Its leases are longer than a machine stands still: a record that is
// printed twice is a fault, but for the end of a lease.
func startWorld(t *testing.T, url string, args ...string) *world {
	t.Helper()
	w := &world{}
	w.server = start(t, []string{
		"COORDINATOR_STREAMS_DECLARED_0_PREFIX=orders", "COORDINATOR_STREAMS_DECLARED_0_SHARDS=4", "COORDINATOR_STREAMS_DECLARED_0_GROUPS=billing",
		"REDIS_STREAM_COORDINATOR_ADMIN_PASSWORD=s3cret",
	}, nil, append([]string{"server", "--address", "127.0.0.1:0", "--set", "coordinator.heartbeat-interval=300ms", "--set", "coordinator.member-lease-ttl=15s",
		"--set", "coordinator.rebalance-timeout=30s", "--set", "coordinator.loop.tick-interval=100ms"}, args...)...)
	var listening []string
	eventually(t, "the server listens", func() bool {
		listening = listens.FindStringSubmatch(w.server.err.String())
		return listening != nil
	})
	w.environ = []string{"RSC_COORDINATOR=" + listening[1], "REDIS_URL=" + url, "RSC_PASSWORD=s3cret", "PATH=" + os.Getenv("PATH")}
	return w
}

func (w *world) produce(t *testing.T, input string, args ...string) (code int, out string) {
	t.Helper()
	c := start(t, w.environ, strings.NewReader(input), append([]string{"produce", "--stream", "orders"}, args...)...)
	return c.wait(t), c.err.String()
}

func (w *world) consume(t *testing.T, args ...string) *command {
	t.Helper()
	return start(t, w.environ, nil, append([]string{"consume", "--stream", "orders", "--group", "billing"}, args...)...)
}

// order is a line of the input, and the payload of a record.
type order struct {
	Customer string `json:"customer"`
	N        int    `json:"n"`
}

// orders returns n lines of as many customers as keys says, numbered by customer.
func orders(n, keys int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `{"customer":"c%d","n":%d}`+"\n", i%keys, i/keys)
	}
	return b.String()
}

// printed reads what consumers printed, in the order of the output.
func printed(t *testing.T, outputs ...string) []order {
	t.Helper()
	var list []order
	for _, output := range outputs {
		for text := range strings.Lines(output) {
			var r record
			if err := json.Unmarshal([]byte(text), &r); err != nil {
				t.Fatalf("%v: %s", err, text)
			}
			var o order
			if err := json.Unmarshal([]byte(r.Values["payload"]), &o); err != nil {
				t.Fatalf("%v: %s", err, text)
			}
			if r.Stream != "orders" || r.Key != o.Customer || r.ID == "" || r.Token == 0 || r.Deliveries < 1 {
				t.Fatalf("printed %s", text)
			}
			list = append(list, o)
		}
	}
	return list
}

// checkOrders checks that every order of orders(n, keys) is there once, and in
// order per customer within each output.
func checkOrders(t *testing.T, n, keys int, outputs ...string) {
	t.Helper()
	seen := map[order]int{}
	for _, output := range outputs {
		last := map[string]int{}
		for _, o := range printed(t, output) {
			if before, ok := last[o.Customer]; ok && o.N <= before {
				t.Errorf("%s: %d came after %d", o.Customer, o.N, before)
			}
			last[o.Customer] = o.N
			seen[o]++
		}
	}
	for i := range n {
		o := order{fmt.Sprintf("c%d", i%keys), i / keys}
		if seen[o] != 1 {
			t.Errorf("%+v was printed %d times", o, seen[o])
		}
	}
	if len(seen) != n {
		t.Errorf("%d different orders were printed, want %d", len(seen), n)
	}
}

func TestProduceAndConsume(t *testing.T) {
	const n, keys = 5000, 200
	w := newWorld(t)
	file := filepath.Join(t.TempDir(), "orders.ndjson")
	if err := os.WriteFile(file, []byte(orders(n, keys)), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out := w.produce(t, "", "--key-field", "customer", file)
	if code != 0 || !strings.HasPrefix(out, fmt.Sprintf("produce: read=%d stored=%d uncertain=0 failed=0 seconds=", n, n)) {
		t.Fatalf("exit code %d:\n%s", code, out)
	}
	a, b := w.consume(t, "--member", "a"), w.consume(t, "--member", "b")
	eventually(t, "all is printed", func() bool {
		return strings.Count(a.out.String(), "\n")+strings.Count(b.out.String(), "\n") >= n
	})
	for _, c := range []*command{a, b} {
		c.stop()
		if code := c.wait(t); code != 0 {
			t.Errorf("exit code %d:\n%s", code, c.err.String())
		}
	}
	checkOrders(t, n, keys, a.out.String(), b.out.String())
	if !strings.Contains(a.err.String(), "consume: member=a records=") {
		t.Errorf("a says\n%s", a.err.String())
	}
	// What was acknowledged does not come again.
	again := w.consume(t, "--member", "c")
	if code, out := w.produce(t, orders(1, 1), "--key-field", "customer"); code != 0 {
		t.Fatalf("exit code %d:\n%s", code, out)
	}
	eventually(t, "the new one is printed", func() bool { return again.out.String() != "" })
	again.stop()
	if code := again.wait(t); code != 0 {
		t.Errorf("exit code %d:\n%s", code, again.err.String())
	}
	if got := printed(t, again.out.String()); len(got) != 1 {
		t.Errorf("printed again: %v", got)
	}
}

// Lines without keys go to all shards, and carry no key.
func TestProduceLines(t *testing.T) {
	w := newWorld(t)
	code, out := w.produce(t, strings.Repeat("hello\n", 200), "-")
	if code != 0 || !strings.HasPrefix(out, "produce: read=200 stored=200 ") {
		t.Fatalf("exit code %d:\n%s", code, out)
	}
	c := w.consume(t)
	eventually(t, "all is printed", func() bool { return strings.Count(c.out.String(), "\n") >= 200 })
	if n := strings.Count(c.out.String(), "\n"); n != 200 {
		t.Errorf("%d lines are printed", n)
	}
	shards := map[int]bool{}
	for text := range strings.Lines(c.out.String()) {
		var r record
		if err := json.Unmarshal([]byte(text), &r); err != nil {
			t.Fatal(err)
		}
		if r.Key != "" || len(r.Values) != 1 || r.Values["payload"] != "hello" {
			t.Fatalf("printed %s", text)
		}
		shards[r.Shard] = true
	}
	if len(shards) != 4 {
		t.Errorf("lines came from the shards %v", shards)
	}
}

// A command that fails is run again for the same record, before the next one.
func TestConsumeExec(t *testing.T) {
	w := newWorld(t)
	if code, out := w.produce(t, orders(20, 1), "--key-field", "customer"); code != 0 {
		t.Fatalf("exit code %d:\n%s", code, out)
	}
	folder := t.TempDir()
	script := fmt.Sprintf(`read -r line; echo "$line" >> %[1]s/tries
if [ ! -e "%[1]s/$RSC_ID" ]; then : > "%[1]s/$RSC_ID"; [ "${RSC_ID%%-0}" = "$RSC_ID" ] || exit 7; fi; echo "$line" >> %[1]s/done`, folder)
	c := w.consume(t, "--exec", script)
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		return string(text)
	}
	eventually(t, "all is done", func() bool { return strings.Count(read("done"), "\n") >= 20 })
	c.stop()
	if code := c.wait(t); code != 0 {
		t.Errorf("exit code %d:\n%s", code, c.err.String())
	}
	checkOrders(t, 20, 1, read("done"))
	if tries := strings.Count(read("tries"), "\n"); tries <= 20 {
		t.Errorf("%d tries for 20 records of which at least one failed first", tries)
	}
	if !strings.Contains(c.err.String(), "exit status 7") {
		t.Errorf("the failure is not logged:\n%s", c.err.String())
	}
	if c.out.String() != "" {
		t.Errorf("printed %s", c.out.String())
	}
}

func TestProduceToNothing(t *testing.T) {
	w := newWorld(t)
	c := start(t, w.environ, strings.NewReader("a\nb\n"), "produce", "--stream", "none", "--timeout", "1m")
	if code := c.wait(t); code != 1 || !strings.Contains(c.err.String(), "STREAM_NOT_FOUND") || !strings.Contains(c.err.String(), "stored=0") {
		t.Errorf("exit code %d:\n%s", code, c.err.String())
	}
	environ := append([]string{"RSC_PASSWORD=canary"}, w.environ...)
	c = start(t, environ, strings.NewReader("a\n"), "produce", "--stream", "orders", "--timeout", "1m")
	if code := c.wait(t); code != 1 || !strings.Contains(c.err.String(), "UNAUTHORIZED") || strings.Contains(c.err.String(), "canary") {
		t.Errorf("exit code %d:\n%s", code, c.err.String())
	}
}

func TestToolsSayWhatTheyNeed(t *testing.T) {
	folder := t.TempDir()
	cases := []struct {
		name string
		args []string
		code int
		err  string
	}{
		{"produce to where", []string{"produce"}, 2, "rsc produce: --stream is needed: the prefix of the stream's keys, such as --stream orders"},
		{"consume what", []string{"consume"}, 2, "--stream is needed: the prefix of the stream's keys, such as --stream orders for orders:0, orders:1, …\n--group is needed: the consumer group to join, such as --group billing\nrsc consume --help shows how it is used\n"},
		{"consume as whom", []string{"consume", "--stream", "s"}, 2, "rsc consume: --group is needed"},
		{"impossible stream", []string{"produce", "--stream", "a{b"}, 2, "Stream: must not contain { or }"},
		{"impossible member", []string{"consume", "--stream", "s", "--group", "g", "--member", "a/b"}, 2, "MemberID: must not contain /"},
		{"impossible coordinator", []string{"produce", "--stream", "s", "--coordinator", "localhost:8080"}, 2, `--coordinator must be a URL such as http://127.0.0.1:8080, got "localhost:8080"`},
		{"impossible redis", []string{"produce", "--stream", "s", "--redis", "http://:canary@x"}, 2, "--redis must be a URL such as redis://127.0.0.1:6379"},
		{"impossible level", []string{"produce", "--stream", "s", "--log-level", "loud"}, 2, "--log-level must be debug, info, warn or error"},
		{"impossible timeout", []string{"produce", "--stream", "s", "--timeout", "0s"}, 2, "--timeout must be longer than nothing"},
		{"two files", []string{"produce", "--stream", "s", "a", "b"}, 2, "takes one file"},
		{"folder", []string{"produce", "--stream", "s", folder}, 2, "is a folder"},
		{"no file", []string{"produce", "--stream", "s", folder + "/none"}, 1, "no such file"},
		{"argument of consume", []string{"consume", "x"}, 2, `takes no argument, got "x"`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got := start(t, nil, nil, c.args...)
			if code := got.wait(t); code != c.code || !strings.Contains(got.err.String(), c.err) || strings.Contains(got.err.String(), "canary") {
				t.Errorf("exit code %d, want %d:\n%s", code, c.code, got.err.String())
			}
		})
	}
}
