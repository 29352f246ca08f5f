package demo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/redis-stream-coordinator/rsc/coordinator/internal/config"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// The users of the demo's coordinators. Their passwords are drawn for each run.
const (
	adminUser  = "admin"
	memberUser = "member"
)

// coordinatorOrders are what a coordinator is told.
type coordinatorOrders struct {
	// ID names it, Address is where it listens.
	ID, Address string
	Timings     protocol.Timings
	Tick        time.Duration
	// RoutingLease is how long the producer may use what it was told.
	RoutingLease time.Duration
	// Passwords are those of the users.
	Passwords map[string]string
	RedisURL  string
	// KeyPrefix begins all its keys.
	KeyPrefix string
	// File is the SQLite file of the metadata; empty for the Redis.
	File string
}

// config makes the settings of `rsc server` of them.
func (o *coordinatorOrders) config() config.Config {
	cfg := config.Default()
	cfg.Server.Address = o.Address
	cfg.Server.ShutdownTimeout = patience
	k := &cfg.Coordinator
	k.ID = o.ID
	k.HeartbeatInterval, k.MemberLeaseTTL, k.RebalanceTimeout = o.Timings.HeartbeatInterval, o.Timings.Lease, o.Timings.RebalanceTimeout
	k.Loop.TickInterval = o.Tick
	k.RoutingLease = o.RoutingLease
	k.API.AuthenticateMemberAPI = true
	k.API.Users = []config.User{
		{Username: adminUser, Password: config.Secret(o.Passwords[adminUser]), Roles: []string{"ADMIN"}},
		{Username: memberUser, Password: config.Secret(o.Passwords[memberUser]), Roles: []string{"MEMBER"}},
	}
	k.Store.Type, k.Store.KeyPrefix = config.StoreRedis, o.KeyPrefix
	k.Redis.URL = config.URL(o.RedisURL)
	k.Streams.ProvisioningEnabled = true
	if o.File != "" {
		k.Store.Type, k.SQL.Driver, k.SQL.DSN = config.StoreSQL, "sqlite", config.Secret(o.File)
	}
	return cfg
}

// coordinator is one coordinator of the demo. It can be ended and started again at
// the same address; what it has to remember is in its store.
type coordinator interface {
	// start runs it, and returns where it is reached.
	start(ctx context.Context) (url string, err error)
	// end ends it as the story has it: without warning where it is a process, else in
	// good order. close ends it for good, in good order.
	end() error
	close(ctx context.Context) error
}

// coordinators are all of them. The first is the one that the story is hard on.
type coordinators struct {
	passwords map[string]string
	all       []coordinator
	// shared says that they are processes of their own and share one store.
	shared bool
	// folder holds the file that they share, if they do.
	folder string
	// routingLease is how long a producer may use what they told it.
	routingLease time.Duration

	mu    sync.Mutex
	seats []seat
}

// seat is what is known of a coordinator.
type seat struct {
	name, url string
	runs      bool
}

// sharing is how many coordinators share a store that can be shared.
const sharing = 2

// The routing leases are much shorter than is usual, since removed shards stay for as
// long, and a demo is not to be spent waiting. That of a sole coordinator has to outlast
// the time in which it is away, and the pause after which the producer asks again;
// each of them also a machine that stands still for a second.
const (
	sharedRoutingLease = 3 * time.Second
	soleRoutingLease   = 4 * time.Second
)

// newCoordinators prepares them: two processes, or where the store is in this process,
// one that is there too. names begins all their keys, log gets their warnings and
// rebalanced is told when one of them computes who should hold what.
func newCoordinators(ctx context.Context, o *Options, b *backend, names string, log func(string), rebalanced func(), failed func(error)) (*coordinators, error) {
	c := &coordinators{passwords: map[string]string{adminUser: rand.Text(), memberUser: rand.Text()}, shared: !b.embedded || o.SQLite}
	c.routingLease = sharedRoutingLease
	if !c.shared {
		c.routingLease = soleRoutingLease
	}
	orders := coordinatorOrders{
		Address: "127.0.0.1:0", Timings: o.Timings, Tick: o.Tick, RoutingLease: c.routingLease,
		Passwords: c.passwords, RedisURL: b.url, KeyPrefix: names,
	}
	if !c.shared {
		orders.ID = "coordinator"
		one, err := newLocalCoordinator(ctx, orders, log, rebalanced, failed)
		if err != nil {
			return nil, err
		}
		c.all, c.seats = []coordinator{one}, []seat{{name: orders.ID}}
		return c, nil
	}
	if o.SQLite {
		var err error
		if c.folder, err = os.MkdirTemp("", "rsc-demo-"); err != nil {
			return nil, err
		}
		orders.File = filepath.Join(c.folder, "rsc.db")
	}
	for i := range sharing {
		orders.ID = fmt.Sprintf("coordinator-%d", i+1)
		c.all = append(c.all, newRemoteCoordinator(o.Self, orders, log, rebalanced, failed))
		c.seats = append(c.seats, seat{name: orders.ID})
	}
	return c, nil
}

// start starts one of them.
func (c *coordinators) start(ctx context.Context, i int) error {
	url, err := c.all[i].start(ctx)
	if err != nil {
		return fmt.Errorf("start %s: %w", c.seats[i].name, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seats[i].url, c.seats[i].runs = url, true
	return nil
}

// startAll starts all of them, one after the other: the first makes the store's.
func (c *coordinators) startAll(ctx context.Context) error {
	for i := range c.all {
		if err := c.start(ctx, i); err != nil {
			return err
		}
	}
	return nil
}

// end ends one of them, see coordinator.end.
func (c *coordinators) end(i int) error {
	c.mu.Lock()
	c.seats[i].runs = false
	c.mu.Unlock()
	return c.all[i].end()
}

// close ends those that run for good.
func (c *coordinators) close(ctx context.Context) error {
	errs := make([]error, len(c.all))
	var closing sync.WaitGroup
	for i, one := range c.all {
		closing.Go(func() { errs[i] = one.close(ctx) })
	}
	closing.Wait()
	var removed error
	if c.folder != "" {
		removed = os.RemoveAll(c.folder)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.seats {
		c.seats[i].runs = false
	}
	return errors.Join(errors.Join(errs...), removed)
}

// known returns what is known of them.
func (c *coordinators) known() []seat {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.seats)
}

// urls are where they are reached, beginning with one of them.
func (c *coordinators) urls(first int) []string {
	var urls []string
	seats := c.known()
	for i := range seats {
		urls = append(urls, seats[(first+i)%len(seats)].url)
	}
	return urls
}

// runs reports whether one of them runs.
func (c *coordinators) runs() bool {
	return slices.ContainsFunc(c.known(), func(s seat) bool { return s.runs })
}
