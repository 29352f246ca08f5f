package group

import (
	"slices"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// Date says when epochs were drawn: those above the Date before it and up to Epoch,
// by the wall clock of the coordinator that drew them. It is for people; nothing is
// decided by it.
type Date struct {
	Epoch protocol.Epoch
	// Ms are milliseconds since 1970.
	Ms int64
}

// maxDates bounds State.Dates: what somebody asks about has mostly just happened.
const maxDates = 16

// DrawnAt returns when an epoch was drawn. exact is false where that is not
// remembered any more: then it was not later than at, which is zero if nothing is.
func (s *State) DrawnAt(e protocol.Epoch) (at time.Time, exact bool) {
	i := slices.IndexFunc(s.Dates, func(d Date) bool { return d.Epoch >= e })
	if i < 0 {
		return time.Time{}, false
	}
	d := s.Dates[i]
	return time.UnixMilli(d.Ms).UTC(), i > 0 || d.Epoch == e
}

// date notes the time of the epochs that the change has drawn.
func (c *change) date() {
	if c.s.Counter == c.first {
		return
	}
	old := c.s.Dates
	if len(old) >= maxDates {
		old = old[len(old)-maxDates+1:]
	}
	c.s.Dates = append(slices.Clone(old), Date{c.s.Counter, c.in.Now.UnixMilli()})
}
