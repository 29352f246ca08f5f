package engine

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/group"
	"github.com/redis-stream-coordinator/rsc/core/internal/spans"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// explained is what is said of a shard, in one line; times count from epochTime.
func explained(t *testing.T, p *Picture, shard protocol.ShardIndex, now time.Time) string {
	t.Helper()
	x, err := p.Explain(shard, now)
	if err != nil {
		t.Fatal(err)
	}
	if x.Settled != (x.Cause == protocol.CauseNone) || x.StreamKey != fmt.Sprintf("orders:%d", shard) || x.ConsumerGroup != "billing" {
		t.Errorf("shard %d: %+v", shard, x)
	}
	line := fmt.Sprintf("%s: %s", x.Cause, x.Summary)
	if x.EndsWhen != "" {
		line += " | ends when: " + x.EndsWhen
	}
	if x.EndsBy != nil {
		line += fmt.Sprintf(" | by %s", x.EndsBy.Sub(epochTime))
	}
	return line
}

// changing is the shard that is taken, or asked for, in the picture.
const changing = 3

// frees takes it from whoever holds it.
func frees(p *Picture) {
	l := &p.State.Ledger
	l.Holder[changing], l.Grant[changing], l.Revoke[changing] = group.None, 0, 0
}

// revokes has its holder asked to let it go to another member.
func revokes(p *Picture) {
	p.State.Counter++
	p.State.Dates = append(p.State.Dates, group.Date{Epoch: p.State.Counter, Ms: epochTime.UnixMilli()})
	h := p.State.Ledger.Holder[changing]
	p.State.Lives[h].Epoch = p.State.Counter
	p.State.Ledger.Revoke[changing] = p.State.Counter
	p.State.Target[changing] = p.State.Target[5]
}

// Every state that a shard can be in explains itself: who, what it waits for, and what
// ends it. In the picture a holds 0 and 3, b is leaving and works on 1, c1 and e are over and
// hold 2 and 4, and c2 was given 5.
func TestExplain(t *testing.T) {
	soon := epochTime.Add(2 * time.Second)
	for _, tc := range []struct {
		name   string
		change func(p *Picture)
		shard  protocol.ShardIndex
		now    time.Time
		want   string
	}{
		{name: "settled", shard: 3, want: `NONE: member "a" reads it, as it should`},
		{
			name: "leaving", shard: 1,
			want: `MEMBER_LEAVING: member "b" leaves and still works on it; member "a" waits for it | ends when: it reports the shard as let go, or its lease ends`,
		},
		{
			name: "leaving, heard of", shard: 1,
			change: func(p *Picture) { p.Stamps["b/b1"] = newStamp("x", epochTime) },
			want:   `MEMBER_LEAVING: member "b" leaves and still works on it; member "a" waits for it | ends when: it reports the shard as let go, or its lease ends | by 15s`,
		},
		{
			name: "replaced", shard: 2,
			change: func(p *Picture) { p.Stamps["c/c1"] = newStamp("x", epochTime.Add(time.Second)) },
			want:   `OLD_INCARNATION: an incarnation of member "c" that is over may still read it; member "c" waits for it | ends when: its lease ends, or the same process joins again and says that it has stopped reading | by 16s`,
		},
		{
			name: "granted, not reported", shard: 5,
			change: func(p *Picture) { p.Stamps["c/c2"] = newStamp("x", epochTime) },
			want:   `NOT_REPORTED: it was granted to member "c", which has not said yet that it reads it | ends when: its next heartbeat, or the end of its lease | by 15s`,
		},
		{
			name: "silent", shard: 3, now: epochTime.Add(14 * time.Second),
			want: `MEMBER_SILENT: member "a" holds it and has not been heard of for 13s | ends when: it is heard of again, or its lease ends and the shard goes to another member | by 16s`,
		},
		{
			name: "last heard of at a time that was lost", shard: 3,
			change: func(p *Picture) { p.Stamps["a/a1"] = newMark("x") },
			want:   `MEMBER_SILENT: member "a" holds it; when it was last heard of is not known, since the proof of it was lost | ends when: it is heard of again, or its lease ends and the shard goes to another member`,
		},
		{
			name: "a late heartbeat is nothing yet", shard: 3, now: epochTime.Add(8 * time.Second),
			want: `NONE: member "a" reads it, as it should`,
		},
		{
			name: "revoked, not heard yet", shard: 3,
			change: func(p *Picture) { revokes(p) },
			want:   `REVOKING: member "a" was asked to let it go and has not heard of it yet; member "c" waits for it | ends when: it reports the shard as let go; at the latest the rebalance timeout, which fences it, or the end of its lease | by 1m0s`,
		},
		{
			name: "revoked, still working", shard: 3,
			change: func(p *Picture) {
				revokes(p)
				p.State.Lives[p.State.Ledger.Holder[3]].Acked = p.State.Counter
				p.Reports["a/a1"] = MemberReport{Owned: protocol.Shards{0}, Revoking: []protocol.RevokingShard{{Shard: 3, State: protocol.RevokeDraining, InFlight: 7}}}
			},
			want: `REVOKING: member "a" was asked to let it go and works on 7 records of it; member "c" waits for it | ends when: it reports the shard as let go; at the latest the rebalance timeout, which fences it, or the end of its lease | by 1m0s`,
		},
		{
			name: "revoked, never reported", shard: 3,
			change: func(p *Picture) {
				revokes(p)
				p.State.Target[3] = group.None
				p.Reports["a/a1"] = MemberReport{}
			},
			want: `REVOKING: member "a" was asked to let it go and has not said anything of it yet | ends when: it reports the shard as let go; at the latest the rebalance timeout, which fences it, or the end of its lease | by 1m0s`,
		},
		{
			name: "free, meant for somebody", shard: 3,
			change: func(p *Picture) { frees(p) },
			want:   `TO_BE_GRANTED: nobody reads it; it is meant for member "a" | ends when: the next change of the group grants it`,
		},
		{
			name: "everybody is drained", shard: 3,
			change: func(p *Picture) {
				frees(p)
				p.State.Target[3] = group.None
				for i := range p.State.Lives {
					p.State.Lives[i].Draining = true
				}
			},
			want: `ALL_DRAINING: nobody reads it: every live member of the group is drained | ends when: a member joins, or an operator ends a drain`,
		},
		{
			name: "nobody is there", shard: 0,
			change: func(p *Picture) { p.State = group.New("orders", "billing", 1, 1, protocol.DefaultTimings(), epochTime) },
			want:   `NO_MEMBER: nobody reads it: the group has no live member | ends when: a member joins`,
		},
		{
			name: "a correction that waits for a member", shard: 3,
			change: func(p *Picture) {
				frees(p)
				p.State.Correction = &group.Correction{Reason: "the store went backwards", OpenedAt: epochTime}
			},
			want: `CORRECTION: nobody reads it, and nothing is granted now: the store went backwards | ends when: every live member has sent a heartbeat since, and one lease time has passed`,
		},
		{
			name: "a correction that waits for leases", shard: 3,
			change: func(p *Picture) {
				frees(p)
				p.State.Correction = &group.Correction{Reason: "the store went backwards", OpenedAt: epochTime}
				for i := range p.State.Lives {
					p.State.Lives[i].InSync = true
				}
			},
			want: `CORRECTION: nobody reads it, and nothing is granted now: the store went backwards | ends when: every live member has sent a heartbeat since, and one lease time has passed | by 15s`,
		},
		{
			name: "removed, not empty", shard: 3,
			change: func(p *Picture) { p.State.ShardCount = 3 },
			want:   `NONE: member "a" reads it, as it should; the shard is being removed from the stream and is read until it is empty`,
		},
		{
			name: "removed and empty, still held", shard: 3,
			change: func(p *Picture) {
				revokes(p)
				p.State.Target[3], p.State.ShardCount, p.State.Closed = group.None, 3, spans.Of(3)
			},
			want: `REVOKING: member "a" was asked to let it go and has not heard of it yet; the shard is empty, and removed from the stream once nobody may read it | ends when: it reports the shard as let go; at the latest the rebalance timeout, which fences it, or the end of its lease | by 1m0s`,
		},
		{
			name: "removed and empty", shard: 3,
			change: func(p *Picture) {
				frees(p)
				p.State.Target[3], p.State.ShardCount, p.State.Closed = group.None, 3, spans.Of(3)
			},
			want: `REMOVED: the shard was removed from the stream, or is empty and about to be, and nobody may read it any more`,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := pictured(t)
			if tc.change != nil {
				tc.change(&p)
			}
			if tc.now.IsZero() {
				tc.now = soon
			}
			if got := explained(t, &p, tc.shard, tc.now); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

func TestExplainNamesTheHolder(t *testing.T) {
	p := pictured(t)
	x, err := p.Explain(3, epochTime.Add(2*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	h := x.Holder
	if h == nil || h.MemberID != "a" || h.MemberName != "the a" || h.Incarnation != "a1" || !h.SaysItReads || h.GrantEpoch != p.State.Ledger.Grant[3] || h.RevokeEpoch != 0 {
		t.Errorf("the holder is %+v", h)
	}
	if x.Target == nil || x.Target.MemberID != "a" || x.Target.State != protocol.MemberActive {
		t.Errorf("the target is %+v", x.Target)
	}
	if x.Since == nil || !x.SinceExact {
		t.Errorf("since %v, exact %v", x.Since, x.SinceExact)
	}
	p.State.Lives[p.State.Target[3]].Draining = true
	if x, err = p.Explain(3, epochTime); err != nil || x.Target.State != protocol.MemberDraining {
		t.Errorf("the target is drained: %+v, %v", x.Target, err)
	}
	for _, shard := range []protocol.ShardIndex{-1, 6} {
		if _, err := p.Explain(shard, epochTime); !errors.Is(err, protocol.ErrInvalidRequest) {
			t.Errorf("shard %d: %v", shard, err)
		}
	}
}
