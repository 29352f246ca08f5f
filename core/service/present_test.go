package service_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
	"github.com/redis-stream-coordinator/rsc/core/service"
)

// between takes the steps in their order, each once, just before a call of its name.
func (s *shaky) between(t *testing.T, steps ...step) {
	var mu sync.Mutex
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before = func(call string) error {
		mu.Lock()
		defer mu.Unlock()
		if len(steps) > 0 && steps[0].at == call {
			now := steps[0]
			steps = steps[1:]
			if now.do != nil {
				now.do()
			}
		}
		return nil
	}
	t.Cleanup(func() {
		mu.Lock()
		defer mu.Unlock()
		if len(steps) > 0 {
			t.Errorf("%s was never asked for", steps[0].at)
		}
	})
}

// step is something that happens just before a call of the store, nothing if do is nil.
type step struct {
	at string
	do func()
}

// createdMeanwhile has b create the group billing of orders between a look at its record
// and one at its stream.
func createdMeanwhile(t *testing.T, b *service.Coordinator) []step {
	return []step{{at: "LoadGroup"}, {at: "LoadStream", do: func() {
		if _, err := b.CreateGroup(t.Context(), "orders", "billing", byTest); err != nil {
			t.Error(err)
		}
	}}}
}

// A group is created after a look at it has found no record, and before the look at its
// stream: it is there, and is not taken for one whose record was lost.
func TestAGroupThatComesMeanwhile(t *testing.T) {
	looks := map[string]func(context.Context, *service.Coordinator) error{
		"Group": func(ctx context.Context, c *service.Coordinator) error {
			_, err := c.Group(ctx, "orders", "billing")
			return err
		},
		"Members": func(ctx context.Context, c *service.Coordinator) error {
			_, err := c.Members(ctx, "orders", "billing")
			return err
		},
		"Assignments": func(ctx context.Context, c *service.Coordinator) error {
			_, err := c.Assignments(ctx, "orders", "billing")
			return err
		},
		"Explain": func(ctx context.Context, c *service.Coordinator) error {
			_, err := c.ExplainAll(ctx, "orders", "billing")
			return err
		},
	}
	for name, look := range looks {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, slow, a, b := slowAndQuick(t)
				if _, err := b.CreateStream(t.Context(), "orders", shards(2)); err != nil {
					t.Fatal(err)
				}
				slow.between(t, createdMeanwhile(t, b)...)
				if err := look(t.Context(), a); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A group is deleted after its stream was seen to have it, and before its record is read:
// it has gone, and is not taken for one whose record was lost. Who joins tries again, and
// is told so.
func TestAGroupThatGoesMeanwhile(t *testing.T) {
	synctest.Test(t, aGroupThatGoesMeanwhile)
}

func aGroupThatGoesMeanwhile(t *testing.T) {
	_, slow, a, b := slowAndQuick(t)
	if _, err := b.CreateStream(t.Context(), "orders", shards(2)); err != nil {
		t.Fatal(err)
	}
	slow.between(t, append(createdMeanwhile(t, b), step{at: "LoadGroup", do: func() {
		if _, err := b.DeleteGroup(t.Context(), "orders", "billing", protocol.Delete{RequestedBy: "test", Reason: "test"}); err != nil {
			t.Error(err)
		}
	}})...)
	m := &beat{id: "m", incarnation: "m1"}
	r := a.Heartbeat(t.Context(), "orders", "billing", m.next())
	if r.Status == protocol.StatusOK || strings.Contains(r.Reason, "missing") {
		t.Errorf("a join is answered %s %s", r.Status, r.Reason)
	}
	if r := a.Heartbeat(t.Context(), "orders", "billing", m.next()); !strings.Contains(r.Reason, "was deleted") {
		t.Errorf("the next attempt is answered %s %s", r.Status, r.Reason)
	}
}
