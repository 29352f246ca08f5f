package sim

import (
	"fmt"
	"strings"

	"github.com/redis-stream-coordinator/rsc/core/group"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// Counts say what a run did, so that one can see that it did something.
type Counts struct {
	Heartbeats, Renewals, Saves, Conflicts                     int
	Joins, Left, Expired, Fenced, Replaced, Stopped            int
	Grants, Revokes, Targets, Moves, Corrections               int
	Fences, LeasesEnded, LegacyStarts, LegacyFences, Unheard   int
	Lost, Repeated, Cuts, Crashes, Leaves, Pauses, Twins       int
	CoordPauses, CoordCrashes, Outages, Failovers, LostReplies int
	Retries, Retimes, Drains, GroupsCreated, GroupsDeleted     int
	Written, Refused, Handled, Scales, Rollbacks, StreamSaves  int
	ShardsRetired, Strays, GivenUp, Ignored, Rewinds           int
	Deletions, Destroyed, Blocked, Signals                     int
}

func (c *Counts) ended(r group.EndReason) {
	switch r {
	case group.EndLeft:
		c.Left++
	case group.EndExpired:
		c.Expired++
	case group.EndFenced:
		c.Fenced++
	case group.EndReplaced:
		c.Replaced++
	case group.EndStopped:
		c.Stopped++
	}
}

func (c *Counts) answered(s protocol.Status) {
	if s == protocol.StatusRetry {
		c.Retries++
	}
}

func (c *Counts) fields() []struct {
	name string
	n    *int
} {
	return []struct {
		name string
		n    *int
	}{
		{"heartbeats", &c.Heartbeats}, {"renewals", &c.Renewals}, {"saves", &c.Saves}, {"conflicts", &c.Conflicts},
		{"joins", &c.Joins}, {"left", &c.Left}, {"expired", &c.Expired}, {"fenced", &c.Fenced},
		{"replaced", &c.Replaced}, {"stopped", &c.Stopped}, {"grants", &c.Grants}, {"revokes", &c.Revokes},
		{"targets", &c.Targets}, {"moves", &c.Moves}, {"corrections", &c.Corrections},
		{"member_fences", &c.Fences}, {"leases_ended", &c.LeasesEnded}, {"unheard", &c.Unheard},
		{"legacy_starts", &c.LegacyStarts}, {"legacy_fences", &c.LegacyFences},
		{"messages_lost", &c.Lost}, {"repeated", &c.Repeated}, {"cuts", &c.Cuts}, {"crashes", &c.Crashes},
		{"leaves", &c.Leaves}, {"pauses", &c.Pauses}, {"twins", &c.Twins},
		{"coordinator_pauses", &c.CoordPauses}, {"coordinator_crashes", &c.CoordCrashes},
		{"outages", &c.Outages}, {"failovers", &c.Failovers}, {"replies_lost", &c.LostReplies}, {"retries", &c.Retries},
		{"retimes", &c.Retimes}, {"drains", &c.Drains}, {"groups_created", &c.GroupsCreated}, {"groups_deleted", &c.GroupsDeleted},
		{"records_written", &c.Written}, {"records_refused", &c.Refused}, {"records_handled", &c.Handled},
		{"scales", &c.Scales}, {"rollbacks", &c.Rollbacks}, {"stream_saves", &c.StreamSaves}, {"shards_retired", &c.ShardsRetired},
		{"strays", &c.Strays}, {"given_up", &c.GivenUp}, {"ignored", &c.Ignored}, {"rewinds", &c.Rewinds},
		{"deletions", &c.Deletions}, {"destroyed", &c.Destroyed}, {"blocked", &c.Blocked}, {"signals", &c.Signals},
	}
}

// Add adds the counts of another run.
func (c *Counts) Add(other Counts) {
	theirs := other.fields()
	for i, f := range c.fields() {
		*f.n += *theirs[i].n
	}
}

// String lists the counts that are not zero.
func (c *Counts) String() string {
	var out []string
	for _, f := range c.fields() {
		if *f.n != 0 {
			out = append(out, fmt.Sprintf("%s=%d", f.name, *f.n))
		}
	}
	return strings.Join(out, " ")
}
