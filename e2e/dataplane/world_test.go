package dataplane

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redis-stream-coordinator/rsc/consumer"
	"github.com/redis-stream-coordinator/rsc/e2e/faultkit"
	"github.com/redis-stream-coordinator/rsc/e2e/rsctest"
	"github.com/redis-stream-coordinator/rsc/producer"
)

// The one stream and the one group of a world.
const (
	stream = "orders"
	group  = "billing"
)

// patience is how long is waited for what no bound is given for.
const patience = 90 * time.Second

// world is a server, a coordinator with a stream on it, members and producers.
type world struct {
	t           *testing.T
	server      *faultkit.Server
	coordinator *coordinator
	shards      int
	// defaults are what plans begin with.
	defaults plan
	members  map[string]*member
	feeds    []*feed
	account  *account
	journal  *faultkit.JournalReader
	// lossy says that the server may lose what it confirmed: what is gone from the
	// streams at the end was lost by the server. Gone are those records.
	lossy bool
	gone  map[name]bool
}

// setting says how a world is made.
type setting struct {
	shards int
	server faultkit.Options
	// metaThere keeps the coordinator's records on the same server.
	metaThere bool
	// declared has the coordinator's settings declare the stream.
	declared bool
	defaults plan
}

func newWorld(t *testing.T, kind faultkit.Kind, s setting) *world {
	t.Helper()
	if s.shards == 0 {
		s.shards = 4
	}
	w := &world{t: t, server: kind.Start(t, s.server), shards: s.shards, members: map[string]*member{}, account: newAccount(), gone: map[name]bool{}}
	var args []string
	if s.declared {
		args = rsctest.Declaring(t, stream, s.shards, group)
	}
	w.coordinator = startCoordinator(t, w.server, s.metaThere, args...)
	if !s.declared {
		w.coordinator.CreateStream(stream, s.shards)
	}
	path := filepath.Join(t.TempDir(), "journal")
	w.journal = faultkit.ReadJournal(t, path)
	w.defaults = s.defaults
	w.defaults.Coordinators = []string{w.coordinator.URL}
	w.defaults.Addrs, w.defaults.Cluster = w.server.Addrs(), kind.Clustered
	w.defaults.Stream, w.defaults.Group, w.defaults.Journal = stream, group, path
	return w
}

// settle waits until the members share all shards and nobody else holds any.
func (w *world) settle(members ...*member) {
	w.t.Helper()
	faultkit.Eventually(w.t, startTimeout, fmt.Sprintf("%d members share %d shards", len(members), w.shards), func() bool {
		held, sum := w.coordinator.held(stream, group), 0
		for _, m := range members {
			n := len(held[m.id])
			if n == 0 && len(members) <= w.shards {
				return false
			}
			sum += n
			if m.proc != nil && !m.proc.Runs() {
				w.t.Fatalf("%s has ended:\n%s", m.id, m.log())
			}
		}
		return sum == w.shards
	})
}

// take brings the account up to date.
func (w *world) take() {
	w.t.Helper()
	takeEvents(w.journal, w.account.add)
}

// published returns the outcomes of all feeds by now.
func (w *world) published() map[name]sent {
	all := map[name]sent{}
	for _, f := range w.feeds {
		for n, s := range f.outcomes() {
			all[n] = s
		}
	}
	return all
}

// done counts the records that are finished by now.
func (w *world) done() int {
	w.t.Helper()
	w.take()
	return w.account.finished
}

// awaitDone waits until so many records are finished.
func (w *world) awaitDone(count int) {
	w.t.Helper()
	faultkit.Eventually(w.t, patience, fmt.Sprintf("%d records are finished", count), func() bool { return w.done() >= count })
}

// awaitMore waits until so many more records are finished than are by now.
func (w *world) awaitMore(count int) { w.t.Helper(); w.awaitDone(w.done() + count) }

// backlog is what the group is still owed, as Redis counts it: entries that are
// pending, and streams that go on behind the last delivered id.
func (w *world) backlog() (pending, undelivered int64, err error) {
	ctx, client := context.WithoutCancel(w.t.Context()), w.server.Client
	groups := make([]*redis.XInfoGroupsCmd, w.shards)
	_, err = client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for shard := range groups {
			groups[shard] = pipe.XInfoGroups(ctx, shardKey(shard))
		}
		return nil
	})
	if err != nil {
		return 0, 0, err
	}
	rests := make([]*redis.XMessageSliceCmd, 0, w.shards)
	_, err = client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for shard, cmd := range groups {
			i := slices.IndexFunc(cmd.Val(), func(g redis.XInfoGroup) bool { return g.Name == group })
			if i < 0 {
				undelivered++
				continue
			}
			pending += cmd.Val()[i].Pending
			rests = append(rests, pipe.XRangeN(ctx, shardKey(shard), "("+cmd.Val()[i].LastDeliveredID, "+", 1))
		}
		return nil
	})
	for _, rest := range rests {
		undelivered += int64(len(rest.Val()))
	}
	return pending, undelivered, err
}

// read counts the records that the group has read, as Redis counts them.
func (w *world) read() int {
	w.t.Helper()
	total := int64(0)
	for shard := range w.shards {
		groups, err := w.server.Client.XInfoGroups(w.t.Context(), shardKey(shard)).Result()
		i := slices.IndexFunc(groups, func(g redis.XInfoGroup) bool { return g.Name == group })
		if err != nil || i < 0 {
			w.t.Fatalf("the group of %s: %v, %v", shardKey(shard), groups, err)
		}
		total += groups[i].EntriesRead
	}
	return int(total)
}

// awaitDrained waits until nothing is pending and nothing undelivered.
func (w *world) awaitDrained() {
	w.t.Helper()
	var pending, undelivered int64
	var err error
	deadline := time.Now().Add(patience)
	for {
		pending, undelivered, err = w.backlog()
		if err == nil && pending == 0 && undelivered == 0 {
			return
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("not within %s: the streams are drained (pending %d, undelivered in %d shards, %v)", patience, pending, undelivered, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// contents reads all shards: every record of ours that is there, and how often.
func (w *world) contents() map[name]int {
	w.t.Helper()
	found := map[name]int{}
	for shard := range w.shards {
		w.scan(shardKey(shard), func(n name) { found[n]++ })
	}
	return found
}

// deadLetters reads the dead-letter stream.
func (w *world) deadLetters() map[name]int {
	w.t.Helper()
	found := map[name]int{}
	w.scan(stream+consumer.DeadLetterSuffix, func(n name) { found[n]++ })
	return found
}

// scan reads a stream in parts.
func (w *world) scan(key string, see func(name)) {
	w.t.Helper()
	const part = 1000
	from := "-"
	for {
		records, err := w.server.Client.XRangeN(context.WithoutCancel(w.t.Context()), key, from, "+", part).Result()
		if err != nil {
			w.t.Fatal(err)
		}
		for _, r := range records {
			from = "(" + r.ID
			text, _ := r.Values[producer.PayloadField].(string)
			seq, _, err := parsePayload(text)
			if err != nil {
				continue // foreign
			}
			key, _ := r.Values[producer.KeyField].(string)
			see(name{key, seq})
		}
		if len(records) < part {
			return
		}
	}
}

// recovery returns how long after a moment each shard had handled a record that
// was published after it, for the shard that took longest. All shards must have.
func (w *world) recovery(since time.Time) time.Duration {
	w.t.Helper()
	var worst time.Duration
	faultkit.Eventually(w.t, patience, "every shard has handled a record published after the fault", func() bool {
		w.take()
		first := map[int]time.Time{}
		for n, s := range w.published() {
			h := w.account.records[n]
			if s.outcome != stored || s.at.Before(since) || h == nil || h.done == 0 {
				continue
			}
			if at, ok := first[s.shard]; !ok || h.at.Before(at) {
				first[s.shard] = h.at
			}
		}
		worst = 0
		for _, at := range first {
			worst = max(worst, at.Sub(since))
		}
		return len(first) == w.shards
	})
	return worst
}

// worstDelay returns the longest time between the confirmation of a record and
// its end.
func (w *world) worstDelay() time.Duration {
	w.t.Helper()
	w.take()
	var worst time.Duration
	for n, s := range w.published() {
		if h := w.account.records[n]; s.outcome == stored && h != nil && h.done > 0 {
			worst = max(worst, h.at.Sub(s.at))
		}
	}
	return worst
}
