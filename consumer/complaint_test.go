package consumer

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestComplaints: a trouble is told when it begins, at distances that grow to a
// minute, when its kind changes, and when it is over.
func TestComplaints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c complaint
		err := errors.New("x")
		down, full := fault{kind: "down"}, fault{kind: "full"}
		begin := time.Now()
		var told []int
		for time.Since(begin) < 5*time.Minute {
			if _, since, say := c.note(down, err); say {
				told = append(told, int(time.Since(begin).Seconds()))
				if !since.Equal(begin) {
					t.Errorf("it began at %s", since.Sub(begin))
				}
			}
			time.Sleep(250 * time.Millisecond)
		}
		want := []int{0, 1, 3, 7, 15, 31, 63, 123, 183, 243}
		if len(told) != len(want) {
			t.Fatalf("told at %v, want %v", told, want)
		}
		for i := range want {
			if told[i] != want[i] {
				t.Fatalf("told at %v, want %v", told, want)
			}
		}
		if _, _, say := c.note(full, err); !say {
			t.Error("another kind was not told")
		}
		time.Sleep(500 * time.Millisecond)
		if _, _, say := c.note(down, err); say {
			t.Error("two lines within a second")
		}
		time.Sleep(600 * time.Millisecond)
		if _, _, say := c.note(down, err); !say {
			t.Error("the kind that there was no room for was not told later")
		}
		if got := c.condition(); got.Kind != "down" || !got.Since.Equal(begin) || got.Attempts < 1200 {
			t.Errorf("the condition is %+v", got)
		}
		attempts, _, say := c.over()
		if !say || attempts < 1200 {
			t.Errorf("its end: %d attempts, told %t", attempts, say)
		}
		if _, _, say := c.over(); say || !c.condition().OK() {
			t.Error("nothing ended twice")
		}
	})
}

// TestComplaintsAboutWhatComesAndGoes: however fast it does, there is one line a
// second at most.
func TestComplaintsAboutWhatComesAndGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c complaint
		lines, begin := 0, time.Now()
		for i := 0; time.Since(begin) < time.Minute; i++ {
			if _, _, say := c.note(fault{kind: []string{"a", "b"}[i%2]}, nil); say {
				lines++
			}
			time.Sleep(10 * time.Millisecond)
			if i%3 == 0 {
				if _, _, say := c.over(); say {
					lines++
				}
			}
		}
		if lines < 20 || lines > 61 {
			t.Errorf("%d lines in a minute", lines)
		}
	})
}
