package demo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	redisadapter "github.com/redis-stream-coordinator/rsc/adapters/redis"
	"github.com/redis-stream-coordinator/rsc/coordinator/internal/config"
	"github.com/redis-stream-coordinator/rsc/coordinator/internal/server"
	"github.com/redis-stream-coordinator/rsc/core/memstore"
	"github.com/redis-stream-coordinator/rsc/core/service"
)

// The users of the demo's coordinator. Their passwords are drawn for each run.
const (
	adminUser  = "admin"
	memberUser = "member"
)

// coordinator is the coordinator of the demo: the one that `rsc server` runs, in
// this process. It can be stopped and started again at the same address; what it
// has to remember is in its store.
type coordinator struct {
	cfg     config.Config
	options server.Options
	// failed is told when it ends by itself.
	failed func(error)
	// url is where it is reached, from the first start on.
	url string

	stopRunning context.CancelFunc
	ended       chan struct{}
	err         error
	// streams is the connection that provisions streams for a coordinator whose
	// records are in memory; nil where the coordinator has its own.
	streams *redisadapter.Client
}

// newCoordinator prepares a coordinator; names is the prefix of all its keys.
func newCoordinator(ctx context.Context, o *Options, b *backend, names string, log slog.Handler, failed func(error)) (*coordinator, error) {
	c := &coordinator{cfg: config.Default(), options: server.Options{Logger: slog.New(log)}, failed: failed}
	c.cfg.Server.Address = "127.0.0.1:0"
	c.cfg.Server.ShutdownTimeout = patience
	k := &c.cfg.Coordinator
	k.ID = "demo"
	k.HeartbeatInterval, k.MemberLeaseTTL, k.RebalanceTimeout = o.Timings.HeartbeatInterval, o.Timings.Lease, o.Timings.RebalanceTimeout
	k.Loop.TickInterval = o.Tick
	k.API.AuthenticateMemberAPI = true
	k.API.Users = []config.User{
		{Username: adminUser, Password: config.Secret(rand.Text()), Roles: []string{"ADMIN"}},
		{Username: memberUser, Password: config.Secret(rand.Text()), Roles: []string{"MEMBER"}},
	}
	k.Store.Type, k.Store.KeyPrefix = config.StoreRedis, names
	k.Redis.URL = config.URL(b.url)
	k.Streams.ProvisioningEnabled = true
	if b.embedded {
		streams, err := redisadapter.Open(ctx, redisadapter.Config{URL: b.url, KeyPrefix: names})
		if err != nil {
			return nil, err
		}
		k.Store.Type = config.StoreMemory
		c.streams = streams
		c.options.Ports = service.Ports{Store: memstore.New(), Mutex: new(memstore.Mutex), Streams: streams.Streams()}
	}
	return c, nil
}

// start runs it until stop.
func (c *coordinator) start(ctx context.Context) error {
	s, err := server.New(ctx, c.cfg, c.options)
	if err != nil {
		return fmt.Errorf("start the coordinator: %w", err)
	}
	c.url = s.URL()
	c.cfg.Server.Address = strings.TrimPrefix(c.url, "http://")
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	c.stopRunning, c.ended = stop, ended
	go func() {
		defer close(ended)
		c.err = s.Run(running)
		if running.Err() == nil {
			c.failed(fmt.Errorf("the coordinator ended by itself: %w", orUnknown(c.err)))
		}
	}()
	return nil
}

// stop stops it and waits for its end. Errors: what it could not end in order.
func (c *coordinator) stop() error {
	if !c.runs() {
		return nil
	}
	c.stopRunning()
	<-c.ended
	c.ended = nil
	if c.err != nil {
		return fmt.Errorf("stop the coordinator: %w", c.err)
	}
	return nil
}

// runs reports whether it was started and not stopped.
func (c *coordinator) runs() bool { return c.ended != nil }

// close stops it for good.
func (c *coordinator) close() error {
	err := c.stop()
	if c.streams != nil {
		err = errors.Join(err, c.streams.Close())
	}
	return err
}

// password returns the password of a user.
func (c *coordinator) password(user string) string {
	for _, u := range c.cfg.Coordinator.API.Users {
		if u.Username == user {
			return u.Password.Reveal()
		}
	}
	return ""
}
