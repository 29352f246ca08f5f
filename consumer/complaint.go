package consumer

import (
	"sync"
	"time"
)

const (
	// complaintGap is the least time between two log lines about one trouble, and
	// the first step of the distances between them.
	complaintGap = time.Second
	// complaintLast is the longest.
	complaintLast = time.Minute
)

// complaint keeps the log readable while something stays broken: it says when a
// trouble begins, when its kind changes, then at distances that double up to a
// minute, and when it is over. The zero value is no trouble. It is safe for
// concurrent use.
type complaint struct {
	mu       sync.Mutex
	fault    fault
	err      error
	since    time.Time
	attempts int
	// said is when a line was written last, gap how far the next one is.
	said time.Time
	gap  time.Duration
	// told: at least one line was written since it began.
	told bool
}

// note takes one more failed attempt, and reports whether it is to be logged.
func (c *complaint) note(f fault, err error) (attempts int, since time.Time, say bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if c.attempts == 0 {
		c.since, c.told = now, false
	}
	c.attempts++
	changed := f.kind != c.fault.kind
	c.fault, c.err = f, err
	quiet := now.Sub(c.said)
	switch {
	case !c.told && quiet < 2*complaintGap, c.told && quiet < complaintGap:
		// A trouble that comes and goes has a beginning and an end each time.
		if changed {
			c.gap = complaintGap
		}
		return c.attempts, c.since, false
	case !c.told || changed:
		c.gap = complaintGap
	case quiet < c.gap:
		return c.attempts, c.since, false
	default:
		c.gap = min(2*c.gap, complaintLast)
	}
	c.said, c.told = now, true
	return c.attempts, c.since, true
}

// over ends the trouble. It reports whether its end is to be logged: only one
// whose beginning was.
func (c *complaint) over() (attempts int, since time.Time, say bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	attempts, since, say = c.attempts, c.since, c.told && c.attempts > 0
	c.attempts, c.fault, c.err = 0, fault{}, nil
	if say {
		c.said = time.Now()
	}
	return attempts, since, say
}

// condition returns what is wrong at present.
func (c *complaint) condition() Condition {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.attempts == 0 {
		return Condition{}
	}
	return Condition{Kind: c.fault.kind, Advice: c.fault.advice, Err: c.err, Since: c.since, Attempts: c.attempts}
}
