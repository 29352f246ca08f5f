package service_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/memstore"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

func TestOffsets(t *testing.T) { synctest.Test(t, offsetsOfAGroup) }

func offsetsOfAGroup(t *testing.T) {
	c, redis := onRedis(t)
	a := &beat{id: "a", incarnation: "a1"}
	settle(t, c, 4, a)
	for i := range 10 {
		redis.Add("orders:0", fmt.Sprintf("%d-0", 1_799_999_990_000+i), "k", "v")
	}
	redis.Deliver("orders:0", "billing", 4)
	redis.Acknowledge("orders:0", "billing", 1)
	for i := range 600 {
		redis.Add("orders:1", fmt.Sprintf("%d-0", i+1), "k", "v")
	}
	redis.Deliver("orders:1", "billing", 300)
	redis.Delete("orders:2")
	redis.Break("orders:3", errors.New("dial tcp 10.9.8.7: refused"))
	o, err := c.Offsets(t.Context(), "orders", "billing")
	if err != nil {
		t.Fatal(err)
	}
	first := o.Shards[0]
	if first.StreamLength != 10 || first.Lag == nil || *first.Lag != 6 || first.PendingCount != 3 || *first.OldestUndeliveredID != "1799999990004-0" ||
		*first.OldestUndeliveredAgeMs != 9996 || !slices.Equal(first.OwnerMemberIDs, []string{"a"}) || !first.Exists || first.LagEstimate != nil {
		t.Errorf("a shard: %+v", first)
	}
	far := o.Shards[1]
	if far.Lag != nil || far.LagAtLeast != 256 || far.LagEstimate == nil || *far.LagEstimate != 300 {
		t.Errorf("a shard whose lag is not known: %+v", far)
	}
	if gone := o.Shards[2]; gone.Exists || gone.Lag != nil || gone.Error != nil {
		t.Errorf("a shard that is missing: %+v", gone)
	}
	if broken := o.Shards[3]; broken.Error == nil || *broken.Error != protocol.ErrRedisUnavailable.Message {
		t.Errorf("a shard that does not answer: %+v", broken)
	}
	if o.TotalStreamLength != 610 || o.TotalLag != nil || o.TotalLagAtLeast != 262 || o.TotalPendingCount != 303 || o.MemoryUsageKnown {
		t.Errorf("sums: %+v", o)
	}
	if _, err := c.Backlog(t.Context(), "orders", "billing"); !errors.Is(err, protocol.ErrRedisUnavailable) {
		t.Errorf("a backlog without one shard: %v", err)
	}
	redis.Break("orders:3", nil)
	time.Sleep(time.Second)
	b, err := c.Backlog(t.Context(), "orders", "billing")
	if err != nil || b.Undelivered != 306 || b.Pending != 303 || b.Backlog != 609 || b.Exact || b.ShardsWithBacklog != 2 || b.LiveMembers != 1 || b.ShardCount != 4 {
		t.Errorf("backlog %+v, %v", b, err)
	}
}

func TestOneLookServesAll(t *testing.T) { synctest.Test(t, oneLookServesAll) }

// oneLookServesAll: whoever asks within a second is answered by one look at Redis, and
// one record on one shard is seen within two.
func oneLookServesAll(t *testing.T) {
	c, redis := onRedis(t)
	before, _ := redis.Counts()
	var askers sync.WaitGroup
	for range 50 {
		askers.Go(func() {
			if b, err := c.Backlog(t.Context(), "orders", "billing"); err != nil || b.Backlog != 0 || !b.Exact {
				t.Errorf("backlog %+v, %v", b, err)
			}
			if o, err := c.Overviews(t.Context(), "", ""); err != nil || len(o) != 1 || o[0].Offsets == nil {
				t.Errorf("overviews %+v, %v", o, err)
			}
		})
	}
	askers.Wait()
	if after, _ := redis.Counts(); after != before+1 {
		t.Errorf("Redis was asked %d times", after-before)
	}
	redis.Add("orders:3", "1-0", "k", "v")
	time.Sleep(time.Second)
	if b, err := c.Backlog(t.Context(), "orders", "billing"); err != nil || b.Backlog != 1 {
		t.Errorf("a second after one record: %+v, %v", b, err)
	}
}

func TestRates(t *testing.T) { synctest.Test(t, ratesOfShards) }

func ratesOfShards(t *testing.T) {
	c, redis := onRedis(t)
	added := 0
	look := func() (produced, consumed *float64) {
		t.Helper()
		o, err := c.Overview(t.Context(), "orders", "billing")
		if err != nil || o.Offsets == nil {
			t.Fatal(err)
		}
		return o.Rates[0].Produced, o.Rates[0].Consumed
	}
	if p, _ := look(); p != nil {
		t.Errorf("a rate at the first look: %v", *p)
	}
	// 10 a second are written and 4 handed out, whoever looks how often.
	for i := range 20 {
		for range 10 {
			added++
			redis.Add("orders:0", fmt.Sprintf("%d-0", added), "k", "v")
		}
		redis.Deliver("orders:0", "billing", 4)
		time.Sleep(time.Second)
		p, consumed := look()
		if p == nil || *p != 10 || consumed == nil || *consumed != 4 {
			t.Fatalf("after %d s: produced %v, consumed %v", i+1, show(p), show(consumed))
		}
		if again, _ := look(); *again != *p {
			t.Errorf("the second who asks hears %v", *again)
		}
	}
}

func show(n *float64) any {
	if n == nil {
		return "unknown"
	}
	return *n
}

func TestExplainAndDrain(t *testing.T) { synctest.Test(t, explainAndDrain) }

func explainAndDrain(t *testing.T) {
	c, redis := onRedis(t)
	why := func(shard protocol.ShardIndex) protocol.Explanation {
		t.Helper()
		x, err := c.Explain(t.Context(), "orders", "billing", shard)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	if x := why(0); x.Cause != protocol.CauseNoMember || x.Holder != nil || x.Target != nil || x.Since == nil || x.EndsWhen == "" || x.Records == nil || !x.Records.GroupExists {
		t.Errorf("without members: %+v", x)
	}
	a, b := &beat{id: "a", incarnation: "a1"}, &beat{id: "b", incarnation: "b1"}
	settle(t, c, 4, a, b)
	if x := why(0); x.Cause != protocol.CauseNone || !x.Settled || x.Holder == nil || !x.Holder.SaysItReads || x.Target.MemberID != x.Holder.MemberID || !x.SinceExact {
		t.Errorf("settled: %+v", x)
	}
	if list, err := c.ExplainAll(t.Context(), "orders", "billing"); err != nil || list.SettledShards != 4 || len(list.Shards) != 0 {
		t.Errorf("settled: %+v, %v", list, err)
	}
	order := protocol.Order{RequestedBy: "test", Reason: "test"}
	drained := time.Now()
	m, err := c.DrainMember(t.Context(), "orders", "billing", "a", false, order)
	if err != nil || m.State != protocol.MemberDraining || len(m.Revoking) != 2 {
		t.Fatalf("drained: %+v, %v", m, err)
	}
	list, err := c.ExplainAll(t.Context(), "orders", "billing")
	if err != nil || list.SettledShards != 2 || len(list.Shards) != 2 {
		t.Fatalf("%+v, %v", list, err)
	}
	for _, x := range list.Shards {
		if x.Cause != protocol.CauseRevoking || x.Holder.MemberID != "a" || x.Target.MemberID != "b" || x.Since == nil || x.Since.Sub(drained).Abs() > time.Millisecond ||
			x.EndsBy == nil || x.EndsBy.Sub(*x.Since) != fast.RebalanceTimeout {
			t.Errorf("revoked: %+v", x)
		}
	}
	settle(t, c, 4, a, b)
	if len(a.last.Assignment.AssignedShards) != 0 || len(b.last.Assignment.AssignedShards) != 4 {
		t.Errorf("a owns %v, b owns %v", a.last.Assignment.AssignedShards, b.last.Assignment.AssignedShards)
	}
	if m, err = c.DrainMember(t.Context(), "orders", "billing", "a", true, order); err != nil || m.State != protocol.MemberActive {
		t.Errorf("put back: %+v, %v", m, err)
	}
	settle(t, c, 4, a, b)
	if len(a.last.Assignment.AssignedShards) != 2 {
		t.Errorf("a owns %v", a.last.Assignment.AssignedShards)
	}
	for name, want := range map[string]error{"none": protocol.ErrMemberNotFound, "": protocol.ErrInvalidRequest} {
		if _, err := c.DrainMember(t.Context(), "orders", "billing", name, false, order); !errors.Is(err, want) {
			t.Errorf("draining %q: %v", name, err)
		}
	}
	if _, err := c.DrainMember(t.Context(), "orders", "none", "a", false, order); !errors.Is(err, protocol.ErrGroupNotFound) {
		t.Errorf("draining in no group: %v", err)
	}
	if _, err := c.Explain(t.Context(), "orders", "billing", 4); !errors.Is(err, protocol.ErrInvalidRequest) {
		t.Errorf("explaining no shard: %v", err)
	}
	redis.SetAway(errors.New("gone"))
	if x := why(0); x.Records.Error == nil || x.Cause != protocol.CauseNone {
		t.Errorf("without Redis: %+v", x)
	}
	redis.SetAway(nil)

	// b falls silent, and its lease ends.
	time.Sleep(fast.Lease * 7 / 10)
	a.send(t, c)
	silent := b.last.Assignment.AssignedShards[0].Shard
	if x := why(silent); x.Cause != protocol.CauseSilent || x.EndsBy == nil || x.Since == nil {
		t.Errorf("silent: %+v", x)
	}
	for range 5 {
		time.Sleep(fast.Lease / 10)
		a.send(t, c)
	}
	settle(t, c, 4, a)
	if x := why(silent); x.Cause != protocol.CauseNone || x.Holder.MemberID != "a" {
		t.Errorf("taken over: %+v", x)
	}
	if _, err := c.DrainMember(t.Context(), "orders", "billing", "a", false, order); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		a.send(t, c)
		time.Sleep(20 * time.Millisecond)
	}
	if x := why(0); x.Cause != protocol.CauseAllDraining {
		t.Errorf("all are drained: %+v", x)
	}
}

func TestTimingsAreChanged(t *testing.T) { synctest.Test(t, timingsChanged) }

func timingsChanged(t *testing.T) {
	c := start(t, memstore.New(), nil)
	if _, err := c.CreateGroup(t.Context(), "orders", "billing", byTest); err != nil {
		t.Fatal(err)
	}
	ms := func(n int64) *int64 { return &n }
	now, err := c.ChangeTimings(t.Context(), "orders", "billing", protocol.SetTimings{MemberLeaseTTLMs: ms(2000), RebalanceTimeoutMs: ms(3000), RequestedBy: "test", Reason: "test"})
	if err != nil || now.MemberLeaseTTLMs != 2000 || now.RebalanceTimeoutMs != 3000 || now.HeartbeatIntervalMs != 100 || now.LongestLeaseMs != 2000 {
		t.Errorf("%+v, %v", now, err)
	}
	now, err = c.ChangeTimings(t.Context(), "orders", "billing", protocol.SetTimings{MemberLeaseTTLMs: ms(1000), RequestedBy: "test", Reason: "test"})
	if err != nil || now.MemberLeaseTTLMs != 1000 || now.LongestLeaseMs != 2000 {
		t.Errorf("a shorter lease: %+v, %v", now, err)
	}
	for what, r := range map[string]protocol.SetTimings{
		"nothing":          {RequestedBy: "test", Reason: "test"},
		"nobody":           {MemberLeaseTTLMs: ms(2000), Reason: "test"},
		"no reason":        {MemberLeaseTTLMs: ms(2000), RequestedBy: "test"},
		"too short":        {MemberLeaseTTLMs: ms(10), RequestedBy: "test", Reason: "test"},
		"nothing at all":   {MemberLeaseTTLMs: ms(0), RequestedBy: "test", Reason: "test"},
		"a number too far": {MemberLeaseTTLMs: ms(1 << 62), RequestedBy: "test", Reason: "test"},
	} {
		if _, err := c.ChangeTimings(t.Context(), "orders", "billing", r); !errors.Is(err, protocol.ErrInvalidRequest) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := c.Timings(t.Context(), "orders", "none"); !errors.Is(err, protocol.ErrGroupNotFound) {
		t.Errorf("of no group: %v", err)
	}
}
