package producer

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestRoomIsGivenInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &room{maxMessages: 3, maxBytes: 10}
		take := func(size int) chan error {
			got := make(chan error, 1)
			go func() { got <- r.take(t.Context(), nil, size) }()
			synctest.Wait()
			return got
		}
		granted := func(got chan error) bool {
			synctest.Wait()
			select {
			case err := <-got:
				return err == nil
			default:
				return false
			}
		}
		for range 2 {
			if !granted(take(4)) {
				t.Fatal("there was room")
			}
		}
		large := take(8)
		small := take(1)
		// One would fit, but not before the large one.
		if granted(large) || granted(small) || r.tryTake(1) {
			t.Fatal("there was no room")
		}
		r.free(1, 4)
		if granted(large) || granted(small) {
			t.Fatal("the small one overtook the large one")
		}
		r.free(1, 4)
		if !granted(large) || !granted(small) {
			t.Fatal("both fit")
		}
		if n, bytes := r.taken(); n != 2 || bytes != 9 {
			t.Errorf("%d messages, %d bytes", n, bytes)
		}
		// One that gives up lets in whoever stood behind it.
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		impatient := make(chan error, 1)
		go func() { impatient <- r.take(ctx, nil, 2) }()
		synctest.Wait()
		behind := take(1)
		if granted(behind) {
			t.Fatal("overtook")
		}
		if err := <-impatient; !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if !granted(behind) {
			t.Error("still waits")
		}
	})
}
