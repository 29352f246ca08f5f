package httpload_test

import (
	"context"
	"errors"
	"testing"

	"github.com/redis-stream-coordinator/rsc/adapters/http/httpload"
)

func TestWatchSeesBalance(t *testing.T) {
	w := httpload.NewWatch(4)
	w.Want(2)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	unbalanced := func(when string) {
		t.Helper()
		if _, err := w.Await(over); !errors.Is(err, context.Canceled) {
			t.Errorf("balanced %s, %v", when, err)
		}
	}
	for shard := range 4 {
		unbalanced("with a shard that nobody owns")
		w.Assigned("a", shard)
	}
	unbalanced("with one member of two")
	w.Released("a", 0)
	w.Assigned("b", 0)
	unbalanced("with 3 shards beside 1")
	w.Released("a", 1)
	w.Assigned("b", 1)
	got, err := w.Await(t.Context())
	if err != nil || got.Assigned != 6 || got.Released != 2 || got.Balanced.IsZero() {
		t.Errorf("%+v, %v", got, err)
	}

	w.Want(1)
	unbalanced("before anybody has gone")
	for _, shard := range []int{0, 1} {
		w.Released("b", shard)
		unbalanced("while shards are on their way")
		w.Assigned("a", shard)
	}
	if got, err := w.Await(t.Context()); err != nil || got.Assigned != 2 || got.Released != 2 {
		t.Errorf("%+v, %v", got, err)
	}
	// More members than shards: the others have none.
	w.Want(9)
	for _, shard := range []int{1, 2, 3} {
		w.Released("a", shard)
		w.Assigned(string(rune('b'+shard)), shard)
	}
	if _, err := w.Await(t.Context()); err != nil {
		t.Error(err)
	}
}
