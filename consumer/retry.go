package consumer

import (
	"errors"
	"math/rand/v2"
	"time"
)

// The defaults and bounds of Retry.
const (
	DefaultRetryFirst    = 100 * time.Millisecond
	DefaultRetryLast     = 10 * time.Second
	DefaultRetryJitter   = 0.5
	DefaultMaxDeliveries = 5

	maxRetryPause    = 24 * time.Hour
	maxMaxDeliveries = 1_000_000
	// leastBegun is how often a record that never ended is begun at least before it
	// is given up: the first two times it may merely have run beside what ended the
	// process.
	leastBegun = 3
)

// Retry says how a record is tried again whose handler failed. Records of other
// keys go on meanwhile; those of the same key wait behind it.
type Retry struct {
	// First is the pause after the first failure. Each further one is twice as
	// long, up to Last.
	//
	// Default to 100 ms and 10 s, at most 24 h.
	First, Last time.Duration
	// Jitter is the part of a pause, between 0 and 1, that is left to chance, so
	// that many records that failed together do not come back together. Negative:
	// none.
	//
	// Defaults to 0.5.
	Jitter float64
	// MaxDeliveries is how often a record is begun before it is moved to the
	// dead-letter stream; it needs DeadLetter.Enabled. The count is kept in Redis
	// and raised before a handler begins again, so a handler that ends the process
	// counts too. A record that was begun and never ended is begun three times at
	// least, whatever MaxDeliveries says: it may be innocent of the end.
	//
	// Defaults to 5 with DeadLetter.Enabled. Without it a record is tried for ever.
	MaxDeliveries int
}

func (r Retry) withDefaults(deadLetters bool) Retry {
	if r.First == 0 {
		r.First = min(DefaultRetryFirst, orDefault(r.Last, DefaultRetryFirst))
	}
	r.Last = orDefault(r.Last, max(DefaultRetryLast, r.First))
	switch {
	case r.Jitter == 0:
		r.Jitter = DefaultRetryJitter
	case r.Jitter < 0:
		r.Jitter = 0
	}
	if r.MaxDeliveries == 0 && deadLetters {
		r.MaxDeliveries = DefaultMaxDeliveries
	}
	return r
}

// pause returns how long a record waits after its failures so far.
func (r Retry) pause(failures int) time.Duration {
	d := r.First
	for range failures - 1 {
		if d >= r.Last {
			break
		}
		d *= 2
	}
	d = min(d, r.Last)
	chance := time.Duration(float64(d) * r.Jitter)
	return d - chance + rand.N(chance+1)
}

// rejection is an error that no retry mends.
type rejection struct{ err error }

func (r *rejection) Error() string { return r.err.Error() }
func (r *rejection) Unwrap() error { return r.err }

// errRejected stands in where a handler rejects without a reason.
var errRejected = errors.New("the handler rejected the record")

// Reject returns an error with which a handler says that trying again is of no
// use, such as for a record that it cannot parse: the record is moved to the
// dead-letter stream at once. Without one it is tried again like any other, since
// no record is dropped. The result wraps err, which may be nil, and may be wrapped
// in turn.
func Reject(err error) error {
	if err == nil {
		err = errRejected
	}
	return &rejection{err}
}

func isRejected(err error) bool {
	var r *rejection
	return errors.As(err, &r)
}

// postponement is an error that says when to try again.
type postponement struct {
	after time.Duration
	err   error
}

func (p *postponement) Error() string { return p.err.Error() }
func (p *postponement) Unwrap() error { return p.err }

// errPostponed stands in where a handler postpones without a reason.
var errPostponed = errors.New("the handler postponed the record")

// RetryAfter returns an error with which a handler says when it wants the record
// again, in place of the pauses of Config.Retry: after d, at most 24 h. It counts
// as a delivery. The result wraps err, which may be nil, and may be wrapped in turn.
func RetryAfter(d time.Duration, err error) error {
	if err == nil {
		err = errPostponed
	}
	return &postponement{min(max(d, 0), maxRetryPause), err}
}

// pauseAfter returns the pause that err asks for, or else the one of the plan.
func (r Retry) pauseAfter(err error, failures int) time.Duration {
	var p *postponement
	if errors.As(err, &p) {
		return p.after
	}
	return r.pause(failures)
}
