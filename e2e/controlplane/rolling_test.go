package controlplane

import (
	"reflect"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
	"github.com/redis-stream-coordinator/rsc/e2e/faultkit"
)

// holding is what a rolling restart must not change about a member.
type holding struct {
	incarnation string
	epoch       protocol.Epoch
	shards      protocol.Shards
}

func (c *coordinator) holdings() map[string]holding {
	c.TB.Helper()
	var list protocol.MemberList
	if !c.get("/members", &list) {
		c.TB.Fatalf("%s does not know the members", c.ID)
	}
	all := map[string]holding{}
	for _, m := range list.Members {
		if m.State == protocol.MemberActive {
			all[m.MemberID] = holding{m.Incarnation, m.MemberEpoch, m.GrantedAssignment}
		}
	}
	return all
}

// TestRollingRestart: each of three coordinators is restarted, one after the other.
// Nobody loses a shard, gets one, or gets another epoch.
func TestRollingRestart(t *testing.T) {
	asked(t)
	t.Parallel()
	w := startOn(t, faultkit.Redis7)
	w.populate(processCount)
	w.settle(startTimeout)
	before, readings := w.coordinators[0].holdings(), w.ledger.readings()
	for _, c := range w.coordinators {
		c.Proc.Stop(startTimeout)
		c.Restart()
	}
	// Whatever ends because of it has ended by then.
	time.Sleep(lease + time.Second) // the time itself, nothing is waited for
	w.settle(inOrder)
	for _, c := range w.coordinators {
		if after := c.holdings(); !reflect.DeepEqual(after, before) {
			t.Errorf("%s sees %v, it was %v", c.ID, after, before)
		}
	}
	if moved := w.ledger.readings() - readings; moved > 0 || len(w.ledger.losses) > 0 {
		t.Errorf("%d shards moved, %d were lost", moved, len(w.ledger.losses))
	}
	w.judge()
	t.Logf("rolling restart: %d members, %d shards, %d reads, moved=0 fenced=0", len(before), shardCount, w.ledger.lines)
}
