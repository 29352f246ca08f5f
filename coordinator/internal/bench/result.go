package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/redis-stream-coordinator/rsc/adapters/http/httpload"
)

// Result is what a run came to. Its JSON is what `rsc bench --json` prints.
type Result struct {
	Coordinators []string `json:"coordinators"`
	Embedded     bool     `json:"embedded"`
	Groups       int      `json:"groups"`
	Members      int      `json:"membersOfEachGroup"`
	Shards       int      `json:"shards"`
	// Connections is 0 with members that wait, which have one each.
	Connections int `json:"connections,omitempty"`
	// Wait is how long heartbeats were to be held, 0 for keepalives.
	Wait Duration `json:"waitMs"`
	// Settled is the time from the first join until every shard was owned and
	// acknowledged.
	Settled Duration `json:"settledMs"`
	Took    Duration `json:"tookMs"`

	// Heartbeats counts those that renewed a lease, Failed all others, and those without an
	// answer. Complaints are some of the latter.
	Heartbeats int64    `json:"heartbeats"`
	Failed     int64    `json:"failed"`
	Complaints []string `json:"complaints,omitempty"`
	PerSecond  float64  `json:"perSecond"`
	// Latency is that of keepalives; Join and Leave are the time from the start of a
	// member, or the beginning of its goodbye, until the shards were balanced again.
	Latency *Times `json:"latency,omitempty"`
	Join    *Times `json:"join,omitempty"`
	Leave   *Times `json:"leave,omitempty"`
	// Moved counts the shards that were handed out by that.
	Moved int `json:"moved,omitempty"`

	// Store is what the Redis of the metadata did meanwhile, for each heartbeat; nil
	// without one. It counts whatever else goes on there too.
	Store *StoreCost `json:"store,omitempty"`
	// CPU is processor time for each heartbeat, in microseconds, Memory what is in use
	// in the end, in bytes. The first is this process, with the coordinator if it is
	// embedded, and then come the processes that were named.
	CPU    []float64 `json:"cpuMicros"`
	Memory []int64   `json:"memoryBytes"`
	// MemberBytes is what this process needs for each waiting member, coordinator and
	// member together; only with an embedded one.
	MemberBytes int64 `json:"memoryOfEachWaitingMember,omitempty"`
}

// StoreCost is what the store did, for each heartbeat.
type StoreCost struct {
	// ScriptCalls are round trips, Commands all calls of each command, those that
	// scripts make included, both for 1,000 heartbeats.
	ScriptCalls float64            `json:"scriptCallsFor1000"`
	Commands    map[string]float64 `json:"commandsFor1000"`
	BytesIn     float64            `json:"bytesIn"`
	BytesOut    float64            `json:"bytesOut"`
	CPUMicros   float64            `json:"cpuMicros"`
}

// Times are some of many times.
type Times struct {
	Count uint64   `json:"count"`
	P50   Duration `json:"p50Ms"`
	P90   Duration `json:"p90Ms"`
	P99   Duration `json:"p99Ms"`
	P999  Duration `json:"p99.9Ms"`
	Max   Duration `json:"maxMs"`
}

// Duration is a time that is written as milliseconds.
type Duration time.Duration

// MarshalJSON writes milliseconds.
func (d Duration) MarshalJSON() ([]byte, error) {
	return json.Marshal(float64(d) / float64(time.Millisecond))
}

func (d Duration) String() string {
	switch t := time.Duration(d); {
	case t >= 10*time.Second:
		return t.Round(100 * time.Millisecond).String()
	case t >= 10*time.Millisecond:
		return t.Round(100 * time.Microsecond).String()
	default:
		return t.Round(time.Microsecond).String()
	}
}

// OK reports whether every heartbeat was answered as it should be.
func (r *Result) OK() bool { return r.Failed == 0 && r.Heartbeats > 0 }

func timesOf(h *httpload.Histogram) *Times {
	q := func(share float64) Duration { return Duration(h.Quantile(share)) }
	return &Times{Count: h.Count(), P50: q(0.5), P90: q(0.9), P99: q(0.99), P999: q(0.999), Max: Duration(h.Max())}
}

// heartbeats takes over what keepalives came to.
func (r *Result) heartbeats(sum *httpload.Result) {
	r.Heartbeats, r.Failed, r.Complaints = sum.OK, sum.Failed, sum.Complaints
	r.Took, r.PerSecond = Duration(sum.Took), sum.PerSecond()
	r.Latency = timesOf(&sum.Latency)
}

// waited takes over what members that wait came to.
func (r *Result) waited(w *waiting, took time.Duration) {
	r.Heartbeats, r.Failed = w.answers.Load(), w.fails.Load()
	r.Took, r.PerSecond = Duration(took), float64(r.Heartbeats)/took.Seconds()
	var joins, leaves httpload.Histogram
	for _, g := range w.groups {
		joins.Add(&g.joins)
		leaves.Add(&g.leaves)
		r.Moved += g.moved
	}
	r.Join, r.Leave = timesOf(&joins), timesOf(&leaves)
}

// cost adds what was used between two moments.
func (r *Result) cost(before, after snapshot) {
	beats := float64(max(1, r.Heartbeats))
	used := func(before, after use) {
		r.CPU = append(r.CPU, micros(after.cpu-before.cpu)/beats)
		r.Memory = append(r.Memory, after.memory)
	}
	used(before.self, after.self)
	for i := range after.others {
		used(before.others[i], after.others[i])
	}
	if after.store.calls == nil {
		return
	}
	d := after.store.since(before.store)
	r.Store = &StoreCost{
		ScriptCalls: 1000 * float64(d.scripts()) / beats, Commands: make(map[string]float64, len(d.calls)),
		BytesIn: float64(d.in) / beats, BytesOut: float64(d.out) / beats, CPUMicros: micros(d.cpu) / beats,
	}
	for name, n := range d.calls {
		r.Store.Commands[name] = 1000 * float64(n) / beats
	}
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// Print writes the result for people.
func (r *Result) Print(out io.Writer) error {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	line := func(name, format string, args ...any) { fmt.Fprintf(t, "%s\t%s\n", name, fmt.Sprintf(format, args...)) }
	where := strings.Join(r.Coordinators, ", ")
	if r.Embedded {
		where = "in this process"
	}
	line("coordinator", "%s", where)
	load := fmt.Sprintf("%s of %s on a stream with %s", number(r.Groups, "group"), number(r.Members, "member"), number(r.Shards, "shard"))
	if r.Wait > 0 {
		line("load", "%s, heartbeats held for %s", load, r.Wait)
	} else {
		line("load", "%s, keepalives over %s", load, number(r.Connections, "connection"))
	}
	line("settled", "in %s", r.Settled)
	line("heartbeats", "%d in %s: %.0f/s, %d failed", r.Heartbeats, r.Took, r.PerSecond, r.Failed)
	for _, x := range []struct {
		name  string
		times *Times
	}{{"latency", r.Latency}, {"a member joins", r.Join}, {"a member leaves", r.Leave}} {
		if x.times != nil {
			line(x.name, "p50 %s, p90 %s, p99 %s, p99.9 %s, max %s, of %d", x.times.P50, x.times.P90, x.times.P99, x.times.P999, x.times.Max, x.times.Count)
		}
	}
	if r.Join != nil {
		line("", "each until the shards are balanced; %d shards moved", r.Moved)
	}
	r.printCost(line)
	for _, c := range r.Complaints {
		line("failed", "%s", c)
	}
	return t.Flush()
}

func (r *Result) printCost(line func(name, format string, args ...any)) {
	if s := r.Store; s != nil {
		line("store", "%.1f script calls for 1,000 heartbeats; %.0f bytes in and %.0f out for each; %.2f µs of its processor", s.ScriptCalls, s.BytesIn, s.BytesOut, s.CPUMicros)
		var all []string
		for _, name := range slices.Sorted(maps.Keys(s.Commands)) {
			all = append(all, fmt.Sprintf("%s %.1f", name, s.Commands[name]))
		}
		line("", "commands for 1,000, also in scripts: %s", strings.Join(all, ", "))
	}
	who := "this process, which sends the load"
	if r.Embedded {
		who = "this process, coordinator and load"
	}
	for i, cpu := range r.CPU {
		if i > 0 {
			who = fmt.Sprintf("coordinator %d", i)
		}
		line("", "%s: %.2f µs of processor for each heartbeat, %.1f MB of memory", who, cpu, float64(r.Memory[i])/1e6)
	}
	if r.MemberBytes > 0 {
		line("", "%.1f kB for each waiting member, its own end included", float64(r.MemberBytes)/1e3)
	}
}

// number writes a count with its noun.
func number(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}
