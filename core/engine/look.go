package engine

import (
	"time"

	"github.com/redis-stream-coordinator/rsc/core/group"
)

// Look is what an engine knows of its group, for display and metrics.
type Look struct {
	// View is the cached state, nil while there is none; not to be changed.
	View *group.View
	// Absent is true when the last load found no aggregate.
	Absent bool
	// Damaged is true while the group is stopped: its record cannot be read, or
	// contradicts itself.
	Damaged bool
	// Held counts the heartbeats whose answers wait for a change.
	Held int
	// Silence is how long ago the lease of each life of View was last renewed, as far
	// as is known here; negative where nothing is known yet.
	Silence []time.Duration
	// Lost tells of which lives of View the stamp was lost: Silence is then the time since
	// that was noticed or marked, and when they were heard of is not known.
	Lost []bool
	// Revoking is how long the oldest revocation has been pending, 0 without any.
	Revoking time.Duration
}

// Look says what the engine knows at a time of the monotonic clock.
func (e *Engine) Look(mono time.Duration) Look {
	l := Look{View: e.view, Absent: e.absent, Damaged: e.complaint != "", Held: e.holds.len()}
	if e.view == nil {
		return l
	}
	l.Silence = make([]time.Duration, len(e.view.State.Lives))
	l.Lost = make([]bool, len(e.view.State.Lives))
	for i := range l.Silence {
		l.Silence[i] = -1
		if seen, there := e.clocks.leases[e.view.Key(i)]; there && seen.known {
			l.Silence[i] = max(0, mono-seen.since)
			l.Lost[i] = seen.stamp == "" || isMark(seen.stamp)
		}
	}
	for _, since := range e.clocks.revokes {
		l.Revoking = max(l.Revoking, mono-since)
	}
	return l
}

// View returns the cached state, nil while there is none; not to be changed. absent is
// true when the last load found no aggregate.
func (e *Engine) View() (v *group.View, absent bool) { return e.view, e.absent }
