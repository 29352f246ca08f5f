package service_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/group"
	"github.com/redis-stream-coordinator/rsc/core/memstore"
	"github.com/redis-stream-coordinator/rsc/core/port"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
	"github.com/redis-stream-coordinator/rsc/core/service"
)

// told collects what the hooks of a coordinator say.
type told struct {
	mu        sync.Mutex
	states    []*group.View
	conflicts []string
	rounds    int
}

func (h *told) hook(cfg *service.Config) {
	cfg.OnGroupState = func(_ port.GroupKey, v *group.View) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.states = append(h.states, v)
	}
	cfg.OnConflict = func(operation string, attempt int) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.conflicts = append(h.conflicts, operation)
		if attempt < 1 {
			h.conflicts = append(h.conflicts, "no attempt")
		}
	}
	cfg.OnRound = func(took time.Duration) {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.rounds++; took < 0 {
			h.rounds = -1 << 30
		}
	}
}

func (h *told) last() (v *group.View, n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.states) == 0 {
		return nil, 0
	}
	return h.states[len(h.states)-1], len(h.states)
}

// What a look says of a group is what its engine knows, and a heartbeat that changes
// nothing is no new state.
func TestLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h told
		c := start(t, memstore.New(), func(cfg *service.Config, _ *service.Ports) { h.hook(cfg) })
		if _, err := c.CreateStream(t.Context(), "orders", shards(4)); err != nil {
			t.Fatal(err)
		}
		a, b := &beat{id: "a", incarnation: "a1"}, &beat{id: "b", incarnation: "b1"}
		settle(t, c, 4, a, b)
		// Both have said what they know, the last epoch too.
		a.send(t, c)
		b.send(t, c)
		synctest.Wait()
		stable, n := h.last()
		pause := fast.Lease / 2
		time.Sleep(pause)
		a.send(t, c)
		if _, now := h.last(); now != n {
			t.Errorf("a heartbeat that changes nothing is told as a state: %d are %d", n, now)
		}
		looks := c.Look(t.Context())
		if len(looks) != 1 || looks[0].Key != (port.GroupKey{Stream: "orders", Group: "billing"}) {
			t.Fatalf("looks %+v", looks)
		}
		l := looks[0]
		if l.View != stable || l.Damaged || l.Complaints != 0 || l.Held != 0 || l.Revoking != 0 || l.Answered[protocol.StatusOK] < 4 {
			t.Errorf("look %+v, told last %p", l, stable)
		}
		for i := range l.View.State.Lives {
			want := time.Duration(0)
			if l.View.State.Lives[i].Member == "b" {
				want = pause
			}
			if l.Silence[i] != want {
				t.Errorf("%s was heard of %s ago, want %s", l.View.State.Lives[i].Member, l.Silence[i], want)
			}
		}
		if s := c.LookStreams(); len(s) != 1 || s[0].Prefix != "orders" || s[0].ShardCount != 4 || s[0].Blocked != 0 {
			t.Errorf("streams %+v", s)
		}
		held := make(chan struct{})
		go func() {
			defer close(held)
			q := b.next()
			q.MaxWaitMs = 3000
			c.Heartbeat(t.Context(), "orders", "billing", q)
		}()
		synctest.Wait()
		if l := c.Look(t.Context())[0]; l.Held != 1 {
			t.Errorf("%d are held", l.Held)
		}
		<-held
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.rounds < 1 {
			t.Errorf("%d rounds", h.rounds)
		}
	})
}

// A group that was deleted is looked at no more, at once where it was deleted; it is told
// as gone, once.
func TestLookAtWhatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h told
		store := memstore.New()
		c := start(t, store, func(cfg *service.Config, _ *service.Ports) { h.hook(cfg) })
		other := start(t, store, nil)
		if _, err := c.CreateStream(t.Context(), "orders", shards(1)); err != nil {
			t.Fatal(err)
		}
		a := &beat{id: "a", incarnation: "a1"}
		settle(t, c, 1, a)
		order := protocol.Delete{RequestedBy: "test", Reason: "test", Force: true}
		if _, err := c.DeleteGroup(t.Context(), "orders", "billing", order); err != nil {
			t.Fatal(err)
		}
		if l := c.Look(t.Context()); len(l) != 0 {
			t.Errorf("looks %+v", l)
		}
		time.Sleep(5 * time.Second)
		h.mu.Lock()
		gone := slices.IndexFunc(h.states, func(v *group.View) bool { return v == nil })
		if gone != len(h.states)-1 {
			t.Errorf("of %d states number %d says that the group is gone", len(h.states), gone)
		}
		h.mu.Unlock()
		if l := other.Look(t.Context()); len(l) != 0 {
			t.Errorf("the other coordinator looks at %+v", l)
		}
		if _, err := other.DeleteStream(t.Context(), "orders", protocol.Delete{RequestedBy: "test", Reason: "test"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		if s := c.LookStreams(); len(s) != 0 {
			t.Errorf("streams %+v", s)
		}
		// It is created again.
		if _, err := c.CreateGroup(t.Context(), "orders", "billing", protocol.CreateGroup{RequestedBy: "test"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		if v, _ := h.last(); v == nil || len(c.Look(t.Context())) != 1 {
			t.Errorf("the group that was created again: %v, %d looks", v, len(c.Look(t.Context())))
		}
	})
}

// A damaged record is told as such, until it is sound again.
func TestLookAtADamagedGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		c := start(t, store, nil)
		if _, err := c.CreateStream(t.Context(), "orders", shards(1)); err != nil {
			t.Fatal(err)
		}
		a := &beat{id: "a", incarnation: "a1"}
		settle(t, c, 1, a)
		key := port.GroupKey{Stream: "orders", Group: "billing"}
		rec, err := store.LoadGroup(t.Context(), key, port.Version{})
		if err != nil {
			t.Fatal(err)
		}
		write := func(body []byte, nonce string) {
			rec, err := store.LoadGroup(t.Context(), key, port.Version{})
			if err == nil {
				_, err = store.SaveGroup(t.Context(), key, port.GroupSave{Expected: rec.Version, Nonce: nonce, Body: body, SchemaVersion: group.SchemaVersion})
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		write([]byte("{"), "damage")
		time.Sleep(5 * time.Second)
		l := c.Look(t.Context())
		if len(l) != 1 || !l[0].Damaged || l[0].View != nil || l[0].Complaints != 1 {
			t.Errorf("looks %+v", l)
		}
		write(rec.Body, "repair")
		time.Sleep(5 * time.Second)
		if l := c.Look(t.Context()); len(l) != 1 || l[0].Damaged || l[0].View == nil || l[0].Complaints != 1 {
			t.Errorf("looks %+v", l)
		}
	})
}

// A look ends with its context, and never waits for a coordinator that is closed.
func TestLookEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, memstore.New(), nil)
		if _, err := c.CreateStream(t.Context(), "orders", shards(1)); err != nil {
			t.Fatal(err)
		}
		settle(t, c, 1, &beat{id: "a", incarnation: "a1"})
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errors.New("the scraper has gone"))
		if l := c.Look(ctx); len(l) > 1 {
			t.Errorf("looks %+v", l)
		}
		if err := c.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if l := c.Look(t.Context()); len(l) != 0 {
			t.Errorf("looks %+v", l)
		}
	})
}

// Heartbeats that no group is asked about are counted by themselves.
func TestTurnedAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, memstore.New(), nil)
		for range 3 {
			(&beat{id: "a", incarnation: "a1"}).send(t, c)
		}
		if n := c.TurnedAway(); len(n) != 1 || n[protocol.StatusUnknownMember] != 3 {
			t.Errorf("turned away %v", n)
		}
		if l := c.Look(t.Context()); len(l) != 0 {
			t.Errorf("looks %+v", l)
		}
	})
}

// Conflicts are told with what the write was for.
func TestConflictsAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h told
		store := memstore.New()
		failing := &shaky{Store: store}
		c := start(t, failing, func(cfg *service.Config, _ *service.Ports) { h.hook(cfg) })
		var mu sync.Mutex
		left := map[string]int{}
		failing.set(func(s *shaky) {
			s.before = func(call string) error {
				mu.Lock()
				defer mu.Unlock()
				if left[call] > 0 {
					left[call]--
					return port.ErrConflict
				}
				return nil
			}
		})
		conflict := func(call string) {
			mu.Lock()
			defer mu.Unlock()
			left[call] = 1
		}
		conflict("SaveStream")
		if _, err := c.CreateStream(t.Context(), "orders", shards(1)); err != nil {
			t.Fatal(err)
		}
		a := &beat{id: "a", incarnation: "a1"}
		settle(t, c, 1, a)
		conflict("RenewGroup")
		a.send(t, c)
		conflict("SaveGroup")
		if _, err := c.SetTimings(t.Context(), "orders", "billing", protocol.Timings{HeartbeatInterval: time.Second, Lease: 20 * time.Second, RebalanceTimeout: time.Minute}); err != nil {
			t.Fatal(err)
		}
		conflict("SaveGroup")
		time.Sleep(30 * time.Second) // the lease ends, and a tick says so
		h.mu.Lock()
		defer h.mu.Unlock()
		if want := []string{"change-stream", "heartbeat", "change-group", "tick-refresh"}; !slices.Equal(h.conflicts, want) {
			t.Errorf("conflicts %q, want %q", h.conflicts, want)
		}
	})
}
