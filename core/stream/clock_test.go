package stream

import (
	"testing"
	"time"
)

// A route is over when the longest routing lease has passed, for a producer whose clock
// runs a tenth slower, too; and each switch is waited for anew.
func TestRoutesRunOut(t *testing.T) {
	var c Clock
	s := State{Switched: 7, RoutingLease: 30 * time.Second}
	for _, step := range []struct {
		at       time.Duration
		switched int64
		want     int64
	}{
		{5 * time.Second, 7, 0},
		{35 * time.Second, 7, 0},
		{38*time.Second - 1, 7, 0},
		{38 * time.Second, 7, 7},
		{60 * time.Second, 9, 0},
		{92 * time.Second, 9, 0},
		{93 * time.Second, 9, 9},
	} {
		s.Switched = step.switched
		if got := c.RoutesOver(step.at, &s); got != step.want {
			t.Errorf("at %s, switched in %d: over is %d, want %d", step.at, step.switched, got, step.want)
		}
	}
	if got := new(Clock).RoutesOver(time.Second, &State{Switched: 3}); got != 3 {
		t.Errorf("without a lease nobody waits, got %d", got)
	}
}

// Another instance of the store may have lost the switch to routes that are in use.
func TestRoutesAreWaitedForAfterAFailover(t *testing.T) {
	var c Clock
	s := State{Switched: 7, RoutingLease: 10 * time.Second}
	over := func(at time.Duration, instance string) int64 {
		c.Loaded(instance)
		return c.RoutesOver(at, &s)
	}
	if over(0, "one") != 0 || over(11*time.Second, "one") != 7 || over(12*time.Second, "one") != 7 {
		t.Error("the lease is not over where nothing was lost")
	}
	if over(13*time.Second, "two") != 0 || over(20*time.Second, "two") != 0 || over(24*time.Second, "two") != 7 {
		t.Error("another instance does not have routes waited for anew")
	}
}
