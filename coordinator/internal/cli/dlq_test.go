package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/redis-stream-coordinator/rsc/coordinator/internal/redistest"
)

// The tests of this file run `rsc dlq` on a real Redis.

// newClusterWorld is newWorld with the streams on a Cluster.
func newClusterWorld(t *testing.T) *world {
	t.Helper()
	addrs := redistest.StartCluster(t, 3)
	w := startWorld(t, "redis://"+strings.Join(addrs, ","),
		"--set", "coordinator.store.type=memory", "--set", "coordinator.redis.addresses="+strings.Join(addrs, ","))
	w.client = redistest.ClusterClient(t, addrs)
	return w
}

func (w *world) dlq(t *testing.T, args ...string) *command {
	t.Helper()
	return start(t, w.environ, nil, append([]string{"dlq", args[0], "--stream", "orders"}, args[1:]...)...)
}

// bury writes a dead letter as a consumer does.
func (w *world) bury(t *testing.T, shard int, record string, fields ...string) (id string) {
	t.Helper()
	values := append(append([]string{}, fields...), "rsc-error", "boom: \x1b[31m", "rsc-shard", fmt.Sprint(shard), "rsc-id", record,
		"rsc-deliveries", "5", "rsc-group", "billing", "rsc-member", "m-1")
	id, err := w.client.XAdd(t.Context(), &goredis.XAddArgs{Stream: "orders:dlq", Values: values}).Result()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// letters counts the dead letters.
func (w *world) letters(t *testing.T) int64 {
	t.Helper()
	n, err := w.client.XLen(t.Context(), "orders:dlq").Result()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// records are all records of the stream's shards.
func (w *world) records(t *testing.T) []goredis.XMessage {
	t.Helper()
	var all []goredis.XMessage
	for i := range 4 {
		list, err := w.client.XRange(t.Context(), fmt.Sprintf("orders:%d", i), "-", "+").Result()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, list...)
	}
	return all
}

func TestPoisonToDeadLetterAndBack(t *testing.T) {
	for name, open := range map[string]func(*testing.T) *world{"server": newWorld, "cluster": newClusterWorld} {
		t.Run(name, func(t *testing.T) {
			w := open(t)
			lines := orders(20, 5) + `{"customer":"c3","n":99,"poison":true}` + "\n" + orders(20, 5)
			if code, out := w.produce(t, lines, "--key-field", "customer"); code != 0 {
				t.Fatalf("exit code %d:\n%s", code, out)
			}
			c := w.consume(t, "--dlq", "--max-deliveries", "2", "--concurrency", "4", "--exec", `read -r line; case $line in *poison*) exit 3;; esac`)
			eventually(t, "the poison is moved and the rest is done", func() bool {
				return w.letters(t) == 1 && w.pending(t) == 0
			})
			c.stop()
			if code := c.wait(t); code != 0 || !strings.Contains(c.err.String(), "records=40\n") {
				t.Errorf("exit code %d:\n%s", code, c.err.String())
			}

			list := w.dlq(t, "list")
			if code := list.wait(t); code != 0 || !strings.Contains(list.out.String(), "deliveries 2") || !strings.Contains(list.out.String(), "group billing") ||
				!strings.Contains(list.out.String(), "key c3") || !strings.Contains(list.out.String(), "exit status 3") || !strings.Contains(list.err.String(), "listed 1 of 1 dead letters of orders\n") {
				t.Fatalf("exit code %d:\n%s%s", code, list.out.String(), list.err.String())
			}
			id, _, _ := strings.Cut(list.out.String(), " ")
			before := len(w.records(t))
			replay := w.dlq(t, "replay", id)
			if code := replay.wait(t); code != 0 || !strings.Contains(replay.err.String(), "replay: read=1 replayed=1 twice=0 uncertain=0 failed=0 kept=0\n") {
				t.Fatalf("exit code %d:\n%s", code, replay.err.String())
			}
			if n := w.letters(t); n != 0 {
				t.Errorf("%d dead letters are left", n)
			}
			if after := len(w.records(t)); after != before+1 {
				t.Errorf("%d records, want %d", after, before+1)
			}
			again := w.consume(t)
			eventually(t, "it is read", func() bool { return strings.Contains(again.out.String(), "poison") })
			var r record
			if err := json.Unmarshal([]byte(again.out.String()), &r); err != nil || r.Key != "c3" || r.Deliveries != 1 || r.Values["rsc-replayed"] != id || len(r.Values) != 2 {
				t.Errorf("it comes back as %s (%v)", again.out.String(), err)
			}
			gone := w.dlq(t, "replay", id)
			if code := gone.wait(t); code != 1 || !strings.Contains(gone.err.String(), "there is no dead letter "+id) {
				t.Errorf("exit code %d:\n%s", code, gone.err.String())
			}
		})
	}
}

// pending counts what is pending, or not read yet, in all shards.
func (w *world) pending(t *testing.T) int64 {
	t.Helper()
	var n int64
	for i := range 4 {
		key := fmt.Sprintf("orders:%d", i)
		groups, err := w.client.XInfoGroups(t.Context(), key).Result()
		if err != nil || len(groups) != 1 {
			t.Fatalf("%s: %v, %v", key, groups, err)
		}
		unread, err := w.client.XRange(t.Context(), key, "("+groups[0].LastDeliveredID, "+").Result()
		if err != nil {
			t.Fatal(err)
		}
		n += groups[0].Pending + int64(len(unread))
	}
	return n
}

// Bytes of any kind, a record larger than a producer takes by default, names that
// repeat, and an entry that no consumer of ours has written.
func TestDeadLettersOfAnyContent(t *testing.T) {
	w := newWorld(t)
	huge := strings.Repeat("\x00\xff", 1<<20)
	first := w.bury(t, 7, "5-0", "rsc-key", "k\x00\xfe", "a\x80", huge, "a", "1", "a", "2", "", "x")
	w.bury(t, 2, "6-0", "payload", "<b>&")
	foreign, err := w.client.XAdd(t.Context(), &goredis.XAddArgs{Stream: "orders:dlq", Values: []string{"v", "1"}}).Result()
	if err != nil {
		t.Fatal(err)
	}
	list := w.dlq(t, "list", "--limit", "2")
	if code := list.wait(t); code != 0 || strings.Contains(list.out.String(), "\x1b") || strings.Count(list.out.String(), "\n") != 2 || !strings.Contains(list.err.String(), "listed 2 of 3 dead letters of orders, go on with --after ") {
		t.Errorf("exit code %d:\n%q\n%s", code, list.out.String(), list.err.String())
	}
	lines := w.dlq(t, "list", "--json", "--after", first)
	if code := lines.wait(t); code != 0 {
		t.Fatalf("exit code %d:\n%s", code, lines.err.String())
	}
	var got []letterText
	for line := range strings.Lines(lines.out.String()) {
		var l letterText
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatal(err)
		}
		got = append(got, l)
	}
	if len(got) != 2 || got[0].Shard != 2 || got[0].Record != "6-0" || *got[0].Fields[0].Value != "<b>&" || got[0].Deliveries != 5 || got[0].Member != "m-1" || got[0].Error != "boom: \x1b[31m" ||
		got[1].ID != foreign || got[1].Shard != -1 {
		t.Errorf("listed %s", lines.out.String())
	}
	show := w.dlq(t, "show", first)
	if code := show.wait(t); code != 0 {
		t.Fatalf("exit code %d:\n%s", code, show.err.String())
	}
	var l letterText
	if err := json.Unmarshal([]byte(show.out.String()), &l); err != nil || len(l.Fields) != 5 || string(l.Fields[1].NameBinary) != "a\x80" || string(l.Fields[1].ValueBinary) != huge || *l.Fields[4].Name != "" {
		t.Errorf("shown, %v: %+v", err, l.Shard)
	}

	dry := w.dlq(t, "replay", "--all", "--dry-run")
	if code := dry.wait(t); code != 0 || strings.Count(dry.out.String(), "\n") != 3 || !strings.Contains(dry.err.String(), "would publish 3 dead letters") {
		t.Errorf("exit code %d:\n%s%s", code, dry.out.String(), dry.err.String())
	}
	if n := len(w.records(t)); n != 0 {
		t.Fatalf("%d records were published", n)
	}
	only := w.dlq(t, "replay", "--all", "--shard", "2")
	if code := only.wait(t); code != 0 || !strings.Contains(only.err.String(), "read=1 replayed=1 ") {
		t.Errorf("exit code %d:\n%s", code, only.err.String())
	}
	// A field without a name is no record that a producer writes: it stays.
	all := w.dlq(t, "replay", "--all")
	if code := all.wait(t); code != 1 || !strings.Contains(all.err.String(), "dead letter "+first+": INVALID_MESSAGE") || !strings.Contains(all.err.String(), "read=2 replayed=1 ") {
		t.Errorf("exit code %d:\n%s", code, all.err.String())
	}
	if err := w.client.XDel(t.Context(), "orders:dlq", first).Err(); err != nil {
		t.Fatal(err)
	}
	large := w.bury(t, 7, "5-0", "rsc-key", "k\x00\xfe", "a\x80", huge)
	all = w.dlq(t, "replay", "--all")
	if code := all.wait(t); code != 0 {
		t.Errorf("exit code %d:\n%s", code, all.err.String())
	}
	found := false
	for _, r := range w.records(t) {
		if r.Values["rsc-replayed"] == large {
			found = r.Values["rsc-key"] == "k\x00\xfe" && r.Values["a\x80"] == huge && len(r.Values) == 3
		}
	}
	if !found {
		t.Error("the large record did not arrive as it was")
	}
}

// Several replays at the same time: nothing is lost, and nothing is left.
func TestReplayAtTheSameTime(t *testing.T) {
	for name, open := range map[string]func(*testing.T) *world{"server": newWorld, "cluster": newClusterWorld} {
		t.Run(name, func(t *testing.T) {
			const letters = 1500
			w := open(t)
			buried := map[string]bool{}
			for i := range letters {
				buried[w.bury(t, i%4, fmt.Sprintf("%d-0", i+1), "rsc-key", fmt.Sprint(i%50), "n", fmt.Sprint(i))] = true
			}
			runs := []*command{w.dlq(t, "replay", "--all"), w.dlq(t, "replay", "--all"), w.dlq(t, "replay", "--all")}
			for _, r := range runs {
				if code := r.wait(t); code != 0 || !strings.Contains(r.err.String(), "uncertain=0 failed=0 kept=0") {
					t.Errorf("exit code %d:\n%s", code, r.err.String())
				}
			}
			seen := map[string]bool{}
			for _, r := range w.records(t) {
				id, _ := r.Values["rsc-replayed"].(string)
				if !buried[id] {
					t.Fatalf("record %v is of no dead letter", r.Values)
				}
				seen[id] = true
			}
			if len(seen) != letters {
				t.Errorf("%d of %d records were published", len(seen), letters)
			}
			if n := w.letters(t); n != 0 {
				t.Errorf("%d dead letters are left", n)
			}
		})
	}
}

func TestDLQSaysWhatItNeeds(t *testing.T) {
	server := redistest.Start(t)
	if err := server.Client().Set(t.Context(), "taken:dlq", "x", 0).Err(); err != nil {
		t.Fatal(err)
	}
	environ := []string{"REDIS_URL=" + server.URL, "PATH=" + os.Getenv("PATH")}
	cases := []struct {
		name string
		args []string
		code int
		text string
	}{
		{"nothing", []string{"dlq"}, 0, "List dead letters"},
		{"no such command", []string{"dlq", "lis"}, 2, "did you mean list?"},
		{"no stream", []string{"dlq", "list"}, 2, "--stream is needed"},
		{"none there", []string{"dlq", "list", "--stream", "none"}, 0, "listed 0 of 0"},
		{"none to replay", []string{"dlq", "replay", "--stream", "none", "--all"}, 0, "replay: read=0 "},
		{"another key", []string{"dlq", "list", "--stream", "taken"}, 1, "taken:dlq: the key holds something else than a stream"},
		{"limit", []string{"dlq", "list", "--stream", "s", "--limit", "0"}, 2, "--limit must be between 1 and"},
		{"show what", []string{"dlq", "show", "--stream", "s"}, 2, "needs the id of a dead letter"},
		{"no id", []string{"dlq", "show", "--stream", "s", "x"}, 1, `"x" is no id of an entry`},
		{"replay what", []string{"dlq", "replay", "--stream", "s"}, 2, "or --all"},
		{"ids and all", []string{"dlq", "replay", "--stream", "s", "1-0", "--all"}, 2, "not both"},
		{"shard without all", []string{"dlq", "replay", "--stream", "s", "1-0", "--shard", "1"}, 2, "--shard goes with --all"},
		{"no Redis", []string{"dlq", "list", "--stream", "s", "--redis", "redis://127.0.0.1:1"}, 1, "reach redis: no answer from Redis"},
		{"no Cluster", []string{"dlq", "list", "--stream", "s", "--redis-cluster"}, 1, "not part of a Redis Cluster"},
		{"concurrency", []string{"consume", "--stream", "s", "--group", "g", "--concurrency", "0"}, 2, "--concurrency must be at least 1"},
		{"deliveries", []string{"consume", "--stream", "s", "--group", "g", "--max-deliveries", "0"}, 2, "--max-deliveries must be at least 1"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got := start(t, environ, nil, c.args...)
			if code := got.wait(t); code != c.code || !strings.Contains(got.out.String()+got.err.String(), c.text) {
				t.Errorf("exit code %d, want %d:\n%s%s", code, c.code, got.out.String(), got.err.String())
			}
		})
	}
}
