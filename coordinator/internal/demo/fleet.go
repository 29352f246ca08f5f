package demo

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// fleet are the consumer processes.
type fleet struct {
	argv         []string
	orders       consumerOrders
	coordinators *coordinators
	journal      *journal
	// say tells what a consumer complains of; failed that one ended by itself.
	say    func(format string, args ...any)
	failed func(error)

	mu      sync.Mutex
	members []*child
	kills   map[string]time.Duration
	state   map[string]memberState
}

// memberState is what the demo has done to a consumer.
type memberState string

const (
	memberRuns   memberState = "runs"
	memberLeaves memberState = "leaves"
	memberGone   memberState = "left"
	memberKilled memberState = "killed"
)

func memberName(n int) string { return fmt.Sprintf("consumer-%d", n) }

// start starts one more consumer.
func (f *fleet) start() (*child, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	name := memberName(len(f.members) + 1)
	orders := f.orders
	// They begin with another coordinator each, and know all of them.
	orders.Member, orders.Coordinators = name, f.coordinators.urls(len(f.members))
	c, err := spawn(childSpec{
		name: name, argv: f.argv, orders: orders,
		line:    func(line string) { f.journal.line(name, line) },
		trouble: func(line string) { f.say("%s: %s", name, line) },
		ended:   func(err error) { f.failed(fmt.Errorf("%s ended by itself: %w", name, orUnknown(err))) },
	})
	if err != nil {
		return nil, err
	}
	f.members = append(f.members, c)
	f.state[name] = memberRuns
	return c, nil
}

// kill kills a consumer without warning.
func (f *fleet) kill(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.kills[name] = f.journal.now()
	f.state[name] = memberKilled
	c := f.find(name)
	c.kill()
	<-c.exited
}

// dismiss stops a consumer in good order.
func (f *fleet) dismiss(ctx context.Context, name string) error {
	f.mu.Lock()
	c := f.find(name)
	f.state[name] = memberLeaves
	f.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := c.dismiss(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.state[name] = memberGone
	return err
}

func (f *fleet) find(name string) *child {
	return f.members[slices.IndexFunc(f.members, func(c *child) bool { return c.name == name })]
}

// live are the consumers that run.
func (f *fleet) live() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var names []string
	for _, c := range f.members {
		if f.state[c.name] == memberRuns {
			names = append(names, c.name)
		}
	}
	return names
}

// close stops all that are left, at the same time.
func (f *fleet) close(ctx context.Context) error {
	live := f.live()
	errs := make([]error, len(live))
	var stopping sync.WaitGroup
	for i, name := range live {
		stopping.Go(func() { errs[i] = f.dismiss(ctx, name) })
	}
	stopping.Wait()
	return errors.Join(errs...)
}

// roll lists all consumers ever started, with what became of them.
func (f *fleet) roll() (names []string, states map[string]memberState) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.members {
		names = append(names, c.name)
	}
	return names, maps.Clone(f.state)
}
