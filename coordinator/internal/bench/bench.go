package bench

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis-stream-coordinator/rsc/adapters/http/httpload"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

const (
	// answerTimeout bounds one heartbeat, beyond its wait.
	answerTimeout = 30 * time.Second
	// cleanUpTimeout bounds what is removed at the end.
	cleanUpTimeout = time.Minute
	// settleAtOnce is how many members of a group join at the same time.
	settleAtOnce = 500
)

// Run loads the coordinator and returns what it measured. It works on a stream of
// its own, whose name begins with rsc-bench-, and removes it.
// Errors: all that is wrong with o; what kept it from being carried out. A heartbeat
// that fails is no error, it is counted.
func Run(ctx context.Context, o Options) (_ *Result, err error) {
	o = o.withDefaults()
	if err := o.Check(); err != nil {
		return nil, err
	}
	b := &run{Options: o, stream: "rsc-bench-" + strings.ToLower(rand.Text()[:10])}
	defer func() { err = errors.Join(err, b.close(ctx)) }()
	if err := b.open(ctx); err != nil {
		return nil, err
	}
	if o.Wait > 0 {
		return b.wait(ctx)
	}
	return b.keepalives(ctx)
}

// run is one run.
type run struct {
	Options

	stream   string
	created  bool
	embedded *embedded
	store    *store // nil without a Redis
	admin    *admin
	targets  []*httpload.Target
}

func (b *run) open(ctx context.Context) (err error) {
	if b.Redis != nil {
		b.store = openStore(b.Redis)
	}
	if b.Embedded {
		b.Progress("starting a coordinator in this process")
		if b.embedded, err = startEmbedded(ctx, &b.Options, b.stream); err != nil {
			return err
		}
		b.Coordinators, b.Username, b.Password = []string{b.embedded.url}, embeddedUser, b.embedded.password
	}
	for _, url := range b.Coordinators {
		t, err := httpload.NewTarget(url, b.Username, b.Password)
		if err != nil {
			return err
		}
		b.targets = append(b.targets, t)
	}
	b.admin = newAdmin(b.Coordinators[0], b.Username, b.Password)
	b.Progress(fmt.Sprintf("creating the stream %s with %d shards", b.stream, b.Shards))
	if err := b.admin.createStream(ctx, b.stream, b.Shards); err != nil {
		return fmt.Errorf("create the stream of the benchmark: %w", err)
	}
	b.created = true
	return nil
}

func (b *run) close(ctx context.Context) error {
	ctx, done := context.WithTimeout(context.WithoutCancel(ctx), cleanUpTimeout)
	defer done()
	var errs []error
	if b.created {
		b.Progress("removing the stream")
		for g := range b.Groups {
			errs = append(errs, b.admin.deleteGroup(ctx, b.stream, groupName(g)))
		}
		errs = append(errs, b.admin.deleteStream(ctx, b.stream))
	}
	if b.admin != nil {
		b.admin.close()
	}
	if b.embedded != nil {
		errs = append(errs, b.embedded.close())
		if b.store != nil {
			// What is left of the store itself.
			errs = append(errs, b.store.forget(ctx, b.stream))
		}
	}
	if b.store != nil {
		errs = append(errs, b.store.close())
	}
	return errors.Join(errs...)
}

func groupName(i int) string { return fmt.Sprintf("group-%d", i) }

// target is the coordinator of a group.
func (b *run) target(group int) (*httpload.Target, string) {
	i := group % len(b.targets)
	return b.targets[i], b.Coordinators[i]
}

// begin makes the result of a run, with what is known before it.
func (b *run) begin() *Result {
	r := &Result{
		Coordinators: b.Coordinators, Embedded: b.Embedded, Groups: b.Groups, Members: b.Members, Shards: b.Shards,
		Wait: Duration(b.Wait),
	}
	if b.Wait == 0 {
		r.Connections = min(b.Connections, b.Groups*b.Members)
	}
	return r
}

// measure runs what is measured and adds what it cost.
func (b *run) measure(ctx context.Context, r *Result, do func(ctx context.Context) error) error {
	before, err := b.look(ctx)
	if err != nil {
		return err
	}
	if err := do(ctx); err != nil {
		return err
	}
	after, err := b.look(ctx)
	if err != nil {
		return err
	}
	r.cost(before, after)
	return nil
}

// look takes all counters.
func (b *run) look(ctx context.Context) (s snapshot, err error) {
	if b.store != nil {
		if s.store, err = b.store.counters(ctx); err != nil {
			return s, fmt.Errorf("read the counters of Redis: %w", err)
		}
	}
	s.self = selfUse()
	for _, pid := range b.PIDs {
		u, err := processUse(pid)
		if err != nil {
			return s, err
		}
		s.others = append(s.others, u)
	}
	return s, nil
}

// settled reports an error unless the coordinator lists every group as stable.
func (b *run) settled(ctx context.Context) error {
	for g := range b.Groups {
		state, err := b.admin.group(ctx, b.stream, groupName(g))
		if err != nil {
			return err
		}
		if state.State != protocol.GroupStable {
			return fmt.Errorf("group %s is %s after the run, it should be %s: did leases end?", groupName(g), state.State, protocol.GroupStable)
		}
	}
	return nil
}
