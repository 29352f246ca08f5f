package controlplane

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
	"github.com/redis-stream-coordinator/rsc/e2e/faultkit"
	"github.com/redis-stream-coordinator/rsc/e2e/rsctest"
)

// How many there are of everything.
const (
	coordinatorCount  = 3
	processCount      = 10
	membersPerProcess = 3
	shardCount        = 96
)

// maxDrift is how far the clock may be set during a test: times are compared between
// processes.
const maxDrift = 50 * time.Millisecond

// world is coordinators on one store, and members that ask them.
type world struct {
	t      *testing.T
	server *faultkit.Server
	// database is where the records are instead, if it is not nil.
	database     *database
	coordinators []*coordinator
	processes    []*members
	// urls are what members are given.
	urls   []string
	ledger *ledger
	path   string
	reader *faultkit.JournalReader
	began  time.Time
	// epochs are the highest that a coordinator has told.
	epochs epochs
}

// epochs are what must not go back.
type epochs struct{ group, version int64 }

// members is a process of some members.
type members struct {
	w    *world
	ids  []string
	proc *faultkit.Process
	// frozen is set while the process is paused.
	frozen bool
}

// newWorld makes the world around coordinators that run already.
func newWorld(t *testing.T, coordinators []*coordinator, shards int) *world {
	t.Helper()
	w := &world{t: t, coordinators: coordinators, ledger: newLedger(shards), path: filepath.Join(t.TempDir(), "journal"), began: time.Now()}
	for _, c := range coordinators {
		w.urls = append(w.urls, c.URL)
	}
	w.reader = faultkit.ReadJournal(t, w.path)
	return w
}

// user is the Redis user of a coordinator.
func user(i int) string { return fmt.Sprintf("coordinator-%d", i) }

// startOn runs three coordinators on a server, each as a Redis user of its own.
func startOn(t *testing.T, kind faultkit.Kind) *world {
	t.Helper()
	rsctest.Program(t) // the tests' own times are not for building
	users := make([]string, coordinatorCount)
	for i := range users {
		users[i] = user(i)
	}
	server := kind.Start(t, faultkit.Options{Gated: true, Users: users})
	args := rsctest.Declaring(t, stream, shardCount, group)
	if kind.Clustered {
		// Several masters die and stand still here, which loses writes otherwise.
		args = append(args, rsctest.Set("coordinator.redis.addresses", strings.Join(server.Addrs(), ","), "coordinator.redis.wait-replicas", "1")...)
	} else {
		args = append(args, "--redis", "redis://"+server.Addrs()[0])
	}
	var all []*coordinator
	for i := range users {
		all = append(all, startCoordinator(t, user(i), append(args[:len(args):len(args)],
			rsctest.Set("coordinator.redis.username", user(i), "coordinator.redis.password", user(i))...)...))
	}
	w := newWorld(t, all, shardCount)
	w.server = server
	return w
}

// populate starts the processes of members.
func (w *world) populate(processes int) {
	w.t.Helper()
	for i := range processes {
		m := &members{w: w}
		for k := range membersPerProcess {
			m.ids = append(m.ids, fmt.Sprintf("m%02d", i*membersPerProcess+k))
		}
		w.processes = append(w.processes, m)
		m.start()
	}
}

func (m *members) start() {
	m.w.t.Helper()
	m.proc = faultkit.RunSelf(m.w.t, "members "+strings.Join(m.ids, ","), plan{
		Coordinators: m.w.urls, Stream: stream, Group: group, Members: m.ids, Journal: m.w.path,
	})
}

// kill ends the process as kill -9 does.
func (m *members) kill() {
	m.w.t.Helper()
	m.proc.Kill()
	m.w.take()
	m.w.ledger.forget(m.ids)
}

// leave asks the members to end, and waits for it.
func (m *members) leave() {
	m.w.t.Helper()
	m.proc.Stop(startTimeout)
}

// alive are the members whose processes run.
func (w *world) alive() []string {
	var ids []string
	for _, m := range w.processes {
		if m.proc.Runs() && !m.frozen {
			ids = append(ids, m.ids...)
		}
	}
	return ids
}

// take brings the ledger up to date.
func (w *world) take() {
	w.t.Helper()
	takeLines(w.reader, w.ledger.add)
}

// unsettled says what keeps the group from being in order: as the members say, and as
// every coordinator that answers says. Empty when nothing does.
func (w *world) unsettled() string {
	w.t.Helper()
	w.take()
	for _, m := range w.processes {
		if !m.proc.Runs() {
			return fmt.Sprintf("%v have ended", m.ids)
		}
	}
	alive := w.alive()
	if why := w.ledger.unsettled(alive); why != "" {
		return why
	}
	held := w.ledger.held()
	for _, c := range w.coordinators {
		if why := w.disagrees(c, alive, held); why != "" {
			return c.ID + ": " + why
		}
	}
	return ""
}

// disagrees says in what a coordinator sees the group otherwise than its members do.
func (w *world) disagrees(c *coordinator, alive []string, held map[string][]int) string {
	w.t.Helper()
	var g protocol.Group
	var list protocol.MemberList
	var shares protocol.Assignments
	if !c.get("", &g) || !c.get("/members", &list) || !c.get("/assignments", &shares) {
		return "does not know the group"
	}
	switch {
	case g.State != protocol.GroupStable:
		return fmt.Sprintf("the group is %s", g.State)
	case g.ShardCount != len(w.ledger.spans):
		return fmt.Sprintf("there are %d shards", g.ShardCount)
	case g.GroupEpoch != g.AssignmentEpoch:
		return fmt.Sprintf("the group is in epoch %d, the assignment in %d", g.GroupEpoch, g.AssignmentEpoch)
	case len(shares.InvariantViolations) > 0:
		return strings.Join(shares.InvariantViolations, "; ")
	}
	active := map[string]bool{}
	for _, m := range list.Members {
		if m.State != protocol.MemberActive {
			continue
		}
		active[m.MemberID] = true
		granted := make([]int, len(m.GrantedAssignment))
		for i, s := range m.GrantedAssignment {
			granted[i] = int(s)
		}
		switch {
		case !slices.Equal(granted, held[m.MemberID]):
			return fmt.Sprintf("%s is granted %v and holds %v", m.MemberID, granted, held[m.MemberID])
		case m.AckedEpoch != m.MemberEpoch || len(m.Revoking) > 0:
			return m.MemberID + " has something to acknowledge"
		}
	}
	if len(active) != len(alive) {
		return fmt.Sprintf("%d members are active of %d: %v", len(active), len(alive), slices.Sorted(maps.Keys(active)))
	}
	now := epochs{int64(g.GroupEpoch), g.MetadataVersion}
	if now.group < w.epochs.group || now.version < w.epochs.version {
		w.t.Errorf("%s says epoch %d and version %d, and there were %d and %d before", c.ID, now.group, now.version, w.epochs.group, w.epochs.version)
	}
	w.epochs = epochs{max(now.group, w.epochs.group), max(now.version, w.epochs.version)}
	return ""
}

// settle waits until the group is in order and returns how long that took.
func (w *world) settle(within time.Duration) time.Duration {
	w.t.Helper()
	since := time.Now()
	why := ""
	for time.Since(since) < within {
		if why = w.unsettled(); why == "" {
			return time.Since(since)
		}
		time.Sleep(10 * time.Millisecond)
	}
	w.t.Fatalf("the group is not in order after %s: %s", within, why)
	return 0
}

// corrections counts how often a coordinator has opened a correction, or found the
// store empty.
func (w *world) corrections() int {
	w.t.Helper()
	n := 0
	for _, c := range w.coordinators {
		n += c.Says("the store went backwards", "the metadata store was emptied")
	}
	return n
}

// judge holds the whole journal to what must never happen.
func (w *world) judge() {
	w.t.Helper()
	w.take()
	overlaps, tokens := w.ledger.overlaps()
	faultkit.Report(w.t, "a shard had two readers", overlaps)
	faultkit.Report(w.t, "a token did not rise", tokens)
	// The one is the monotonic clock's, the other the wall clock's, of one moment.
	now := time.Now()
	mono, wall := now.Sub(w.began), now.Round(0).Sub(w.began.Round(0))
	if drift := (wall - mono).Abs(); drift > maxDrift {
		w.t.Errorf("the clock of this machine was set by %s meanwhile, which spoils what is compared: run the test again", drift)
	}
}
