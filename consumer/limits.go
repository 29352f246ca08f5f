package consumer

import "time"

// limits are the short waits of a member: what it gives the machine and Redis before
// it goes on without them. Nothing is lost when one runs out, but a record may be
// handled again, or counted once too often. Each zero value means the default.
type limits struct {
	// probe bounds the look at Redis before the member joins. A server that does not
	// answer in it may do so later, and keeps nobody from starting.
	probe time.Duration
	// link is how long a connection is given to return from a command when its
	// reader is to stop, before it is cut off.
	link time.Duration
	// giveBack bounds giving back what was not begun.
	giveBack time.Duration
	// finalAck bounds the last acknowledgements of a shard that is let go of, lateAck
	// does when time is up. What they miss is handled again by the next owner.
	finalAck, lateAck time.Duration
	// stuck is how long Run waits for handlers after their context has ended.
	stuck time.Duration
	// missing is how long a stream may be missing before that counts as trouble. One
	// that was removed because the stream has fewer shards is taken from us in a moment,
	// and one that was lost is created again as soon: both take the coordinator a
	// message, and where that is lost a tick.
	missing time.Duration
}

func (l limits) withDefaults() limits {
	return limits{
		probe:    orDefault(l.probe, 2*time.Second),
		link:     orDefault(l.link, 500*time.Millisecond),
		giveBack: orDefault(l.giveBack, 500*time.Millisecond),
		finalAck: orDefault(l.finalAck, 5*time.Second),
		lateAck:  orDefault(l.lateAck, 100*time.Millisecond),
		stuck:    orDefault(l.stuck, 200*time.Millisecond),
		missing:  orDefault(l.missing, 2*time.Second),
	}
}

// await waits for done, and reports false when it is not closed after d. A process
// that stands still for a while goes on with all its timers due, and nobody has had
// the time to do anything: so the wait goes in steps, of which such a while takes one.
func await(done <-chan struct{}, d time.Duration) bool {
	const steps = 20
	step := time.NewTimer(d / steps)
	defer step.Stop()
	for range steps {
		select {
		case <-done:
			return true
		case <-step.C:
			step.Reset(d / steps)
		}
	}
	select {
	case <-done:
		return true
	default:
		return false
	}
}
