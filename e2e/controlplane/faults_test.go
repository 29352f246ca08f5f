package controlplane

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/redis-stream-coordinator/rsc/e2e/faultkit"
)

// longer is for how long that lasts which is to last longer than a lease.
var longer = lease + time.Second

// fault is something that happens for a while.
type fault struct {
	name string
	// on is what it happens to.
	on part
	// excused are the members that may lose their shards for it.
	excused []string
	// lasts is how long it goes on, at least.
	lasts time.Duration
	// begin makes it happen, end ends it, and recovered waits for what was there before
	// it to be there again: several end at once, and one may need the other.
	begin, end, recovered func()
}

// part is a part of the system.
type part int

const (
	onCoordinators part = iota
	onMembers
	onRedis
)

// The names of faults.
const (
	killCoordinator  = "kill -9 of a coordinator"
	stopCoordinator  = "SIGTERM to a coordinator"
	pauseCoordinator = "SIGSTOP of a coordinator"
	cutCoordinator   = "a coordinator cut from Redis, connections break"
	hushCoordinator  = "a coordinator cut from Redis, nothing arrives"
	killMembers      = "kill -9 of members"
	pauseMembers     = "SIGSTOP of members"
	leaveMembers     = "members leave and come back"
	failover         = "a master fails over"
	killMaster       = "kill -9 of a master"
	isolateMaster    = "a master stands still and is succeeded"
	freezeRedis      = "Redis stands still"
	oldRedis         = "Redis comes back as it was before"
	emptyRedis       = "Redis comes back empty"
)

var (
	coordinatorFaults = []string{killCoordinator, stopCoordinator, pauseCoordinator, cutCoordinator, hushCoordinator}
	memberFaults      = []string{killMembers, pauseMembers, leaveMembers}
	clusterFaults     = []string{failover, killMaster, isolateMaster}
	serverFaults      = []string{freezeRedis, oldRedis, emptyRedis}
)

// deck gives every one of its cards before it gives one again.
type deck struct {
	cards  []string
	chance *rand.Rand
	left   []string
}

func (d *deck) draw() string {
	if len(d.left) == 0 {
		d.left = append(d.left, d.cards...)
		d.chance.Shuffle(len(d.left), func(i, j int) { d.left[i], d.left[j] = d.left[j], d.left[i] })
	}
	card := d.left[0]
	d.left = d.left[1:]
	return card
}

// coordinatorFault is a fault of one coordinator.
func (w *world) coordinatorFault(name string, i int) fault {
	c := w.coordinators[i]
	f := fault{name: fmt.Sprintf("%s (%s)", name, c.ID), on: onCoordinators, lasts: longer, recovered: c.AwaitReady}
	switch name {
	case killCoordinator:
		f.lasts, f.begin, f.end, f.recovered = 0, c.Proc.Kill, c.Relaunch, c.Await
	case stopCoordinator:
		f.lasts, f.end, f.recovered = 0, c.Relaunch, c.Await
		f.begin = func() { c.Proc.Stop(startTimeout) }
	case pauseCoordinator:
		f.begin, f.end = c.Proc.Pause, c.Proc.Resume
		if w.database != nil && w.database.server == nil {
			f.on = onRedis // whoever stands still in the middle of a write keeps the file to itself
		}
	case cutCoordinator, hushCoordinator:
		f.begin = func() { w.bar(c.ID, name == hushCoordinator) }
		f.end = func() { w.unbar(c.ID) }
	default:
		w.t.Fatalf("no fault of coordinators: %s", name)
	}
	return f
}

// memberFault is a fault of one process of members.
func (w *world) memberFault(name string, i int) fault {
	m := w.processes[i]
	f := fault{name: fmt.Sprintf("%s (%v)", name, m.ids), on: onMembers, excused: m.ids, recovered: func() {}}
	switch name {
	case killMembers:
		f.begin, f.end = m.kill, m.start
	case leaveMembers:
		f.begin, f.end = m.leave, m.start
	case pauseMembers:
		f.lasts = longer
		f.begin = func() { m.proc.Pause(); m.frozen = true }
		f.end = func() { m.proc.Resume(); m.frozen = false }
	default:
		w.t.Fatalf("no fault of members: %s", name)
	}
	return f
}

// redisFault is a fault of the store. In a cluster it happens to the master of one of
// the three parts of the slots.
func (w *world) redisFault(name string, third int) fault {
	if w.database != nil {
		return w.databaseFault(name)
	}
	s := w.server
	f := fault{name: name, on: onRedis, end: func() {}, recovered: func() {}}
	if s.Kind.Clustered {
		f.name, f.recovered = fmt.Sprintf("%s (part %d)", name, third), s.AwaitWhole
	}
	var victim *faultkit.Node
	choose := func() *faultkit.Node {
		for _, n := range s.Masters() {
			if n == s.Nodes[third] || n == s.Nodes[third+3] {
				return n
			}
		}
		w.t.Fatalf("part %d of the slots has no master", third)
		return nil
	}
	switch name {
	case failover:
		f.begin = func() { s.Failover(choose()) }
	case killMaster:
		f.begin = func() { victim = choose(); s.KillMaster(victim) }
		f.end = func() { victim.Start() }
	case isolateMaster:
		f.begin = func() { victim = choose(); s.SucceedFrozen(victim) }
		f.end = func() { victim.Resume() }
	case freezeRedis:
		f.lasts = lease / 2
		f.begin, f.end = s.Pause, s.Resume
	case oldRedis:
		f.lasts = time.Second // what happens meanwhile is lost
		f.begin = func() { w.must(s.Nodes[0].Client.Save(w.t.Context()).Err()) }
		f.end = func() { s.Kill(); s.Restart() }
	case emptyRedis:
		f.begin = func() {
			s.FlushAll()
			w.must(s.Nodes[0].Client.Save(w.t.Context()).Err())
			s.Kill()
		}
		f.end = s.Restart
	default:
		w.t.Fatalf("no fault of Redis: %s", name)
	}
	return f
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}
