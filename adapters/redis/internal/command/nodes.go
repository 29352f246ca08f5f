package command

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// quickRedirects is how often calls are redirected without a pause: a slot
	// moves once, or a few times while a Cluster is reordered.
	quickRedirects = 4
	// firstPause and longestPause lie between attempts while trouble passes.
	firstPause   = 20 * time.Millisecond
	longestPause = 500 * time.Millisecond
)

// errNoServer: it is not known which server holds a key, so nothing was sent.
var errNoServer = errors.New("the servers of the Cluster cannot be found")

// nodes sends calls to the servers that hold their keys: one server, Sentinel's
// present master, or the masters of a Cluster. Calls go out on the client of one
// server and never through the Cluster client, which sends a command again whose
// answer was lost; what MOVED and ASK ask for is done here.
type nodes struct {
	single  *redis.Client
	cluster *redis.ClusterClient // else nil
	// options are those of a server's client, the address aside.
	options *redis.Options
	// movable: another server may take over.
	movable  bool
	patience time.Duration
}

// user is how the servers know us.
func (n *nodes) user() string {
	if n.options.Username == "" {
		return "default"
	}
	return n.options.Username
}

func (n *nodes) close() error {
	if n.single != nil {
		return n.single.Close()
	}
	return n.cluster.Close()
}

// masters returns the clients of all servers that hold keys.
func (n *nodes) masters(ctx context.Context) ([]*redis.Client, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if n.cluster == nil {
		return []*redis.Client{n.single}, nil
	}
	var mu sync.Mutex // ForEachMaster calls back from a goroutine per server
	var list []*redis.Client
	err := n.cluster.ForEachMaster(ctx, func(_ context.Context, c *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		list = append(list, c)
		return nil
	})
	if err == nil && len(list) == 0 {
		err = errNoServer
	}
	return list, failed(ctx, err)
}

// run carries calls out, each by itself and in no order; what became of them is
// in them. States in which a server carries nothing out are waited out while ctx
// lasts, and no longer than patience.
// Errors: the cause of a context that ended before.
func (n *nodes) run(ctx context.Context, calls []*call) error {
	return n.runFor(ctx, n.patience, calls)
}

// runFor is run with a patience of its own.
func (n *nodes) runFor(ctx context.Context, patience time.Duration, calls []*call) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	extra := &redirects{options: n.options}
	defer extra.close()
	deadline := time.Now().Add(patience)
	pause := firstPause
	for attempt := 0; len(calls) > 0; attempt++ {
		n.attempt(ctx, calls, extra)
		var open []*call
		waits, moves := attempt >= quickRedirects, false
		for _, c := range calls {
			v := c.judge(n.movable)
			if v == settled || v == redirected && n.cluster == nil {
				continue
			}
			waits = waits || v == passing
			moves = moves || v != taught
			open = append(open, c)
		}
		if len(open) == 0 || ctx.Err() != nil {
			return nil
		}
		calls = open
		if n.cluster != nil && moves {
			n.cluster.ReloadState(ctx)
		}
		if !waits {
			continue
		}
		if time.Until(deadline) < pause {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
		pause = min(2*pause, longestPause)
	}
	return nil
}

// attempt sends each call once, in a pipeline for each server.
func (n *nodes) attempt(ctx context.Context, calls []*call, extra *redirects) {
	if len(calls) == 1 {
		c := calls[0]
		client, err := n.clientFor(ctx, c, extra)
		if err != nil {
			c.reply, c.err = nil, err
			return
		}
		exchange(ctx, client, calls)
		return
	}
	shares := map[*redis.Client][]*call{}
	for _, c := range calls {
		client, err := n.clientFor(ctx, c, extra)
		if err != nil {
			c.reply, c.err = nil, err
			continue
		}
		shares[client] = append(shares[client], c)
	}
	var all sync.WaitGroup
	for client, share := range shares {
		all.Go(func() { exchange(ctx, client, share) })
	}
	all.Wait()
}

// clientFor returns the client of the server to ask.
func (n *nodes) clientFor(ctx context.Context, c *call, extra *redirects) (*redis.Client, error) {
	switch {
	case n.cluster == nil:
		return n.single, nil
	case c.addr != "":
		return extra.client(ctx, n.cluster, c.addr), nil
	}
	client, err := n.cluster.MasterForKey(ctx, c.key)
	switch {
	case err == nil:
		return client, nil
	case answered(err):
		return nil, err
	}
	return nil, fmt.Errorf("%w: %w", errNoServer, err)
}

// exchange sends calls to one server, in pipelines. After one that was not
// answered the rest is not sent: it would only run into the same.
func exchange(ctx context.Context, client *redis.Client, calls []*call) {
	for len(calls) > 0 {
		part := calls[:min(len(calls), pipelineSize)]
		calls = calls[len(part):]
		exchangePart(ctx, client, part)
		if last := part[len(part)-1].err; last != nil && !answered(last) {
			for _, c := range calls {
				c.reply, c.err = nil, last
			}
			return
		}
	}
}

// exchangePart sends calls in one pipeline.
func exchangePart(ctx context.Context, client *redis.Client, calls []*call) {
	if c := calls[0]; len(calls) == 1 && !c.ask && c.replicas.count == 0 {
		cmd := redis.NewCmd(ctx, c.args...)
		_ = client.Process(ctx, cmd) // the error is in cmd
		c.from = client.Options().Addr
		c.take(cmd, nil)
		return
	}
	pipe := client.Pipeline()
	cmds := make([]*redis.Cmd, len(calls))
	waits := make([]*redis.Cmd, len(calls))
	for i, c := range calls {
		if c.ask {
			pipe.Do(ctx, "asking")
		}
		cmds[i] = redis.NewCmd(ctx, c.args...)
		_ = pipe.Process(ctx, cmds[i]) // queues only
		if c.replicas.count > 0 {
			waits[i] = pipe.Do(ctx, "wait", c.replicas.count, c.replicas.timeout.Milliseconds())
		}
	}
	_, whole := pipe.Exec(ctx)
	for i, c := range calls {
		c.from = client.Options().Addr
		c.take(cmds[i], whole)
		if waits[i] != nil && (c.err == nil || errors.Is(c.err, redis.Nil)) {
			c.err = c.replicas.judge(waits[i])
		}
	}
}

// outcome words what became of a call; nil for one that was carried out.
func (n *nodes) outcome(ctx context.Context, c *call) error {
	if c.err == nil || errors.Is(c.err, redis.Nil) {
		return nil
	}
	if _, moved := redis.IsMovedError(c.err); moved && n.cluster == nil {
		return fmt.Errorf("%w: %w", errPartOfCluster, c.err)
	}
	if rule := c.missingRule(); rule != "" {
		return fmt.Errorf("%w: allow it with ACL SETUSER %s %s", c.err, n.user(), rule)
	}
	return failed(ctx, c.err)
}
