package reshard

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/consumer"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
	"github.com/redis-stream-coordinator/rsc/e2e/faultkit"
)

const (
	manyBefore, manyAfter, manyMembers = 100, 1000, 10
	// boards is how many streams get a thousand shards while heartbeats are watched, and
	// boardGroups how many groups each has.
	boards, boardGroups, boardShards = 5, 3, 1000
	// beaters are members that beat without a pause between two beats but beatEvery.
	beaters   = 10
	beatEvery = 5 * time.Millisecond
)

// TestManyShards: ten members share 900 shards that are added.
func TestManyShards(t *testing.T) {
	asked(t)
	t.Parallel()
	server := faultkit.Redis7.Start(t, faultkit.Options{})
	f := fleet{startCoordinator(t, server, "rsc-0")}
	f.createStream(stream, manyBefore, fast)
	o := &owners{held: map[int]string{}, count: map[string]int{}}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var lives sync.WaitGroup
	for i := range manyMembers {
		id := fmt.Sprintf("m%d", i)
		c, err := consumer.New(consumer.Config{
			Coordinators: f.urls(), Stream: stream, Group: fast, MemberID: id, Lifecycle: owner{o, id}, Logger: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		lives.Go(func() {
			if err := c.Run(ctx); err != nil {
				t.Errorf("%s ended: %v", id, err)
			}
		})
	}
	t.Cleanup(func() {
		stop()
		lives.Wait()
	})
	faultkit.Eventually(t, startTimeout, "the members share the shards", func() bool { _, ok := o.balanced(manyBefore, manyMembers); return ok })
	began := time.Now()
	f.scale(stream, manyAfter)
	answered := time.Since(began)
	var last time.Time
	faultkit.Eventually(t, startTimeout, "the members share all shards", func() bool {
		var ok bool
		last, ok = o.balanced(manyAfter, manyMembers)
		return ok
	})
	took := last.Sub(began)
	t.Logf("many: members=%d added=%d owned_and_balanced=%s answered=%s moved=%d", manyMembers, manyAfter-manyBefore, took.Round(time.Millisecond), answered.Round(time.Millisecond), o.moved)
	within(t, "900 added shards were owned by ten members, and balanced", took, time.Second)
	if o.moved > 0 {
		t.Errorf("%d shards changed hands though none had to", o.moved)
	}
}

// owners are who holds which shard.
type owners struct {
	mu    sync.Mutex
	held  map[int]string
	count map[string]int
	// last is when a shard was last given, moved how many had to be let go.
	last  time.Time
	moved int
}

// balanced reports whether so many members hold so many shards evenly, and since when.
func (o *owners) balanced(shards, members int) (since time.Time, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, n := range o.count {
		if n != shards/members {
			return o.last, false
		}
	}
	return o.last, len(o.held) == shards && len(o.count) == members
}

// owner is a member's lifecycle: there is nothing to read.
type owner struct {
	*owners
	id string
}

func (o owner) Assigned(_ context.Context, s consumer.Shard) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.held[s.Index], o.last = o.id, time.Now()
	o.count[o.id]++
}

// settling reports whether not all members have come yet: shards move then.
func (o owner) settling() bool { return len(o.held) <= manyBefore && len(o.count) < manyMembers }

func (o owner) Revoked(ctx context.Context, s consumer.Shard) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.count[o.id]--
	delete(o.held, s.Index)
	if !o.settling() && context.Cause(ctx) == nil {
		o.moved++
	}
}

func (o owner) Lost(s consumer.Shard, _ error) { o.Revoked(context.Background(), s) }

// TestProvisioning: heartbeats are answered as ever while a thousand shards are created.
func TestProvisioning(t *testing.T) {
	asked(t)
	server := faultkit.Redis7.Start(t, faultkit.Options{})
	c := startCoordinator(t, server, "rsc-0")
	f := fleet{c}
	f.createStream(stream, beaters, fast)
	for i := range boards {
		var groups []string
		for g := range boardGroups {
			groups = append(groups, fmt.Sprintf("g%d", g))
		}
		f.createStream(board(i), 8, groups...)
	}
	b := &beats{url: c.URL, done: make(chan struct{})}
	var lives sync.WaitGroup
	for i := range beaters {
		lives.Go(func() {
			if err := b.live(t.Context(), fmt.Sprintf("m%d", i)); err != nil {
				t.Error(err)
			}
		})
	}
	stop := sync.OnceFunc(func() {
		close(b.done)
		lives.Wait()
	})
	t.Cleanup(stop)
	faultkit.Eventually(t, startTimeout, "heartbeats are answered", func() bool { return b.count() > 100*beaters })
	var creations []time.Duration
	began := time.Now()
	for i := range boards {
		at := time.Now()
		f.scale(board(i), 8+boardShards)
		creations = append(creations, time.Since(at))
	}
	ended := time.Now()
	stop()
	for i := range boards {
		for _, shard := range []int{8, 8 + boardShards - 1} {
			if n := len(server.Client.XInfoGroups(t.Context(), fmt.Sprintf("%s:%d", board(i), shard)).Val()); n != boardGroups {
				t.Errorf("shard %d of %s has %d groups, want %d", shard, board(i), n, boardGroups)
			}
		}
	}
	during := b.between(began, ended)
	before := b.between(began.Add(-ended.Sub(began)), began)
	// Where the machine stands still, one of each member's takes as long.
	share := either(0.9, 0.99)
	usual, longest := quantile(during, share), slices.Max(creations)
	t.Logf("provisioning: shards=%d groups=%d longest=%s all=%s heartbeats=%d p50=%s p%.0f=%s max=%s before_p50=%s before_p99=%s", boardShards, boardGroups, longest.Round(time.Millisecond),
		creations, len(during), quantile(during, 0.5), 100*share, usual, quantile(during, 1), quantile(before, 0.5), quantile(before, 0.99))
	within(t, "a thousand shards with three groups were created", longest, time.Second)
	within(t, fmt.Sprintf("a heartbeat was answered meanwhile, in %.0f of 100", 100*share), usual, 10*time.Millisecond)
	if len(during) < 10 {
		t.Errorf("%d heartbeats were answered meanwhile, which says nothing", len(during))
	}
}

func board(i int) string { return fmt.Sprintf("board%d", i) }

// beats are the heartbeats of some members.
type beats struct {
	url  string
	done chan struct{}

	mu  sync.Mutex
	all []batch
}

func (b *beats) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.all)
}

// between returns how long the heartbeats took that were under way between two moments,
// sorted.
func (b *beats) between(first, last time.Time) (took []time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, one := range b.all {
		if one.due.Before(last) && one.due.Add(one.took).After(first) {
			took = append(took, one.took)
		}
	}
	slices.Sort(took)
	return took
}

// live joins as a member and beats until done.
func (b *beats) live(ctx context.Context, id string) error {
	q := protocol.Heartbeat{
		ProtocolVersion: protocol.Version, MemberID: id, Incarnation: "life-of-" + id, MemberEpoch: protocol.EpochJoin,
		Capacity: protocol.Capacity{MaxConcurrency: 1, AvailableConcurrency: 1},
	}
	pace := time.NewTicker(beatEvery)
	defer pace.Stop()
	for n := 0; ; n++ {
		select {
		case <-b.done:
			return nil
		case <-pace.C:
		}
		q.RequestID = fmt.Sprintf("%s-%d", id, n)
		began := time.Now()
		r, err := b.beat(ctx, &q)
		if err != nil {
			return err
		}
		if r.Status != protocol.StatusOK && r.Status != protocol.StatusRetry {
			return fmt.Errorf("heartbeat of %s: %s %s", id, r.Status, r.Reason)
		}
		q.MemberEpoch, q.MetadataVersion, q.OwnedShards = r.MemberEpoch, r.MetadataVersion, nil
		for _, s := range r.Assignment.AssignedShards {
			q.OwnedShards = append(q.OwnedShards, s.Shard)
		}
		b.mu.Lock()
		b.all = append(b.all, batch{began, time.Since(began)})
		b.mu.Unlock()
	}
}

func (b *beats) beat(ctx context.Context, q *protocol.Heartbeat) (r protocol.HeartbeatResponse, err error) {
	text, err := json.Marshal(q)
	if err != nil {
		return r, err
	}
	url := b.url + streamPath(stream) + "/groups/" + fast + "/members/" + q.MemberID + "/heartbeat"
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(text))
	if err != nil {
		return r, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return r, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		return r, err
	}
	if response.StatusCode != http.StatusOK {
		return r, errors.New(string(body))
	}
	err = json.Unmarshal(body, &r)
	return r, err
}
