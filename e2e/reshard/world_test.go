package reshard

import (
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
	"github.com/redis-stream-coordinator/rsc/e2e/faultkit"
	"github.com/redis-stream-coordinator/rsc/e2e/rsctest"
)

const (
	stream = "orders"
	// fast and slow are the groups, idle is a consumer group that nobody reads with.
	fast, slow, idle = "billing", "archive", "old-tool"

	coordinators = 3
	// mainFeeds publish together at the rate of the test.
	mainFeeds = 2
	// sideRate is the rate of a feed that knows an old route.
	sideRate = 100

	// nameless is how long a state may last without a name for what it waits for.
	nameless = 2 * time.Second
)

// patience is how long is waited for what no bound is given for.
var patience = either(3*time.Minute, 10*time.Minute)

// world is a server, coordinators with a stream on it, members and feeds.
type world struct {
	t       *testing.T
	server  *faultkit.Server
	fleet   fleet
	account *account
	dir     string
	procs   map[string]*faultkit.Process
	// kills counts the coordinators that were killed.
	kills int
	// worst is how long a state has lasted without a name for what it waited for.
	worst time.Duration
}

// newWorld starts a server and coordinators on it; args are further ones of theirs.
func newWorld(t *testing.T, kind faultkit.Kind, args ...string) *world {
	t.Helper()
	w := &world{t: t, server: kind.Start(t, faultkit.Options{}), account: newAccount(t), dir: t.TempDir(), procs: map[string]*faultkit.Process{}}
	for i := range coordinators {
		w.fleet = append(w.fleet, startCoordinator(t, w.server, fmt.Sprintf("rsc-%d", i), args...))
	}
	return w
}

func (w *world) part(journal string, coordinators []string) part {
	return part{
		Coordinators: coordinators, Addrs: w.server.Addrs(), Cluster: w.server.Kind.Clustered,
		Stream: stream, Journal: filepath.Join(w.dir, journal),
	}
}

// join starts members of a group, in a process.
func (w *world) join(group string, hold time.Duration) {
	w.t.Helper()
	p := w.part("group-"+group, w.fleet.urls())
	p.Members = &membersPart{Group: group, IDs: []string{group + "-a", group + "-b"}, Hold: hold, Concurrency: 64}
	w.account.addGroup(group, p.Journal)
	w.procs[group] = faultkit.RunSelf(w.t, "members of "+group, p)
}

// feed starts a feed.
func (w *world) feed(name string, perSecond int, coordinators ...string) {
	w.t.Helper()
	p := w.part("feed-"+name, coordinators)
	p.Feed = &feedPart{Name: name, Keys: 128, PerSecond: perSecond}
	w.account.addFeed(name, p.Journal)
	w.procs[name] = faultkit.RunSelf(w.t, "feed "+name, p)
}

// feedAll starts the main feeds.
func (w *world) feedAll(perSecond int) {
	w.t.Helper()
	for i := range mainFeeds {
		w.feed(mainFeed(i), perSecond/mainFeeds, w.fleet.urls()...)
	}
}

func mainFeed(i int) string { return fmt.Sprintf("main%d", i) }

// stop ends processes in order.
func (w *world) stop(names ...string) {
	w.t.Helper()
	for _, name := range names {
		w.procs[name].Terminate()
	}
	for _, name := range names {
		w.procs[name].ExpectEnd(patience)
		delete(w.procs, name)
	}
}

// flows waits until each main feed has stored so many records more.
func (w *world) flows(more int) {
	w.t.Helper()
	at := map[string]int{}
	for i := range mainFeeds {
		at[mainFeed(i)] = len(w.account.feeds[mainFeed(i)].stored) + more
	}
	w.until("records flow", func() bool {
		w.account.take()
		for name, want := range at {
			if len(w.account.feeds[name].stored) < want {
				return false
			}
		}
		return true
	})
}

// until waits for a condition while everybody lives.
func (w *world) until(what string, holds func() bool) {
	w.t.Helper()
	faultkit.Eventually(w.t, patience, what, func() bool {
		for name, p := range w.procs {
			if !p.Runs() {
				w.t.Fatalf("%s has ended:\n%s", name, p.Log())
			}
		}
		return holds()
	})
}

// kill ends a coordinator as kill -9 does, and starts it again.
func (w *world) kill(victim *rsctest.Coordinator) {
	w.t.Helper()
	victim.Proc.Kill()
	w.kills++
	victim.Restart()
}

// killAll ends all of them at once.
func (w *world) killAll() {
	w.t.Helper()
	for _, c := range w.fleet {
		c.Proc.Kill()
		w.kills++
	}
	for _, c := range w.fleet {
		c.Relaunch()
	}
	for _, c := range w.fleet {
		c.Await()
	}
}

// await follows a change of the shard count until a condition holds for it. On the way it
// looks that no state lasts without a name for what it waits for.
func (w *world) await(id, what string, holds func(m *protocol.Migration) bool) (m protocol.Migration) {
	w.t.Helper()
	state, since := protocol.MigrationState(""), time.Now()
	w.until(fmt.Sprintf("%s: %s", id, what), func() bool {
		var ok bool
		if m, ok = w.fleet.migration(stream, id); !ok {
			since = time.Now() // nobody could be asked
			return false
		}
		if m.State != state || len(m.BlockedBy) > 0 || closed(m.State) {
			state, since = m.State, time.Now()
		}
		w.worst = max(w.worst, time.Since(since))
		return holds(&m)
	})
	return m
}

func closed(s protocol.MigrationState) bool {
	return s == protocol.MigrationDeprecated || s == protocol.MigrationRolledBack
}

// awaitState is await for a state.
func (w *world) awaitState(id string, states ...protocol.MigrationState) {
	w.t.Helper()
	w.await(id, fmt.Sprint(states), func(m *protocol.Migration) bool { return slices.Contains(states, m.State) })
}

// awaitActive waits until a change is ACTIVE, or beyond: this process may have stood
// still for longer than that lasts.
func (w *world) awaitActive(id string) {
	w.t.Helper()
	m := w.await(id, "ACTIVE, or beyond", func(m *protocol.Migration) bool { return m.State != protocol.MigrationPreparing })
	if m.State != protocol.MigrationActive {
		w.t.Logf("%s is %s already", id, m.State)
	}
}

// awaitOnlyIdle waits until nothing but the idle group keeps shards from going.
func (w *world) awaitOnlyIdle(id string) protocol.Migration {
	w.t.Helper()
	return w.await(id, "only "+idle+" is waited for", func(m *protocol.Migration) bool {
		return m.State == protocol.MigrationDraining && len(m.BlockedBy) > 0 &&
			!slices.ContainsFunc(m.BlockedBy, func(b protocol.Blocker) bool { return b.ConsumerGroup != idle })
	})
}

// ignoreIdle says that nobody has to wait for the idle group.
func (w *world) ignoreIdle() {
	w.t.Helper()
	w.fleet.order(streamPath(stream)+"/ignore-group", protocol.IgnoreGroup{
		ConsumerGroup: idle, Order: protocol.Order{RequestedBy: "test", Reason: "nobody reads with it"},
	}, nil)
}

// refuse asks for a change that cannot be prepared, since a key of it is taken, and
// returns its id.
func (w *world) refuse(to, taken int) (id string) {
	w.t.Helper()
	w.redis("SET", key(taken), "taken")
	if status, body := w.fleet.ask(http.MethodPost, streamPath(stream)+"/scale", scaleTo(to)); status/100 == 2 {
		w.t.Fatalf("scale to %d over a key that is taken: %d %s", to, status, body)
	}
	return w.fleet.open(stream).ReshardingID
}

// redis sends a command on one key.
func (w *world) redis(args ...any) any {
	w.t.Helper()
	reply, err := w.server.Client.Do(w.t.Context(), args...).Result()
	if err != nil && err != redis.Nil { //nolint:errorlint // it is never wrapped
		w.t.Fatalf("%v: %v", args, err)
	}
	return reply
}

func key(shard int) string { return fmt.Sprintf("%s:%d", stream, shard) }

// present lists the shards below end whose keys exist.
func (w *world) present(end int) (found []int) {
	w.t.Helper()
	for shard := range end {
		if w.redis("EXISTS", key(shard)) == int64(1) {
			found = append(found, shard)
		}
	}
	return found
}

// wantPresent fails unless exactly the first shards exist.
func (w *world) wantPresent(count, highest int, when string) {
	w.t.Helper()
	found := w.present(highest)
	want := make([]int, count)
	for i := range want {
		want[i] = i
	}
	if !slices.Equal(found, want) {
		w.t.Errorf("%s: shards %v exist, want the first %d", when, found, count)
	}
}

// handleAll waits until every record that was stored was handled by every group.
func (w *world) handleAll() {
	w.t.Helper()
	left := map[string]int{}
	deadline := time.Now().Add(patience)
	for {
		w.account.take()
		sum := 0
		for group := range w.account.handled {
			left[group] = len(w.account.lost(group))
			sum += left[group]
		}
		if sum == 0 {
			return
		}
		if time.Now().After(deadline) {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	for group, n := range left {
		lost := w.account.lost(group)
		w.t.Errorf("group %s has lost %d records of %d, such as %v", group, n, w.account.storedCount(), lost[:min(10, len(lost))])
	}
}
