package consumer_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redis-stream-coordinator/rsc/consumer"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// What a child of these tests is told by its environment.
const (
	childCoordinator = "RSC_TEST_CHILD_COORDINATOR"
	childRedis       = "RSC_TEST_CHILD_REDIS"
	childMember      = "RSC_TEST_CHILD_MEMBER"
	childPoison      = "RSC_TEST_CHILD_POISON"
	childAckInterval = "RSC_TEST_CHILD_ACK_INTERVAL"
	childDeliveries  = "RSC_TEST_CHILD_MAX_DELIVERIES"
)

// handledList has the numbers of the records that were handled, begunList of those
// that were begun, and lostList why shards were lost, as the children wrote it down.
const (
	handledList = "test:handled"
	begunList   = "test:begun"
	lostList    = "test:lost"
)

// diary writes down what is lost.
type diary struct {
	consumer.NopObserver
	notes *redis.Client
}

func (d diary) ShardLost(e consumer.ShardLostEvent) {
	d.notes.RPush(context.Background(), lostList, fmt.Sprint(e.Shard.Index, ": ", e.Cause))
}

// TestChild is not a test but the process that other tests start.
func TestChild(t *testing.T) {
	url := os.Getenv(childCoordinator)
	if url == "" {
		t.Skip("runs as a child of other tests")
	}
	// Nothing is written down twice.
	notes := redis.NewClient(&redis.Options{Addr: os.Getenv(childRedis), MaxRetries: -1, ReadTimeout: patience})
	poison := map[string]bool{}
	for n := range strings.SplitSeq(os.Getenv(childPoison), ",") {
		poison[n] = true
	}
	every, err := time.ParseDuration(os.Getenv(childAckInterval))
	if err != nil {
		t.Fatal(err)
	}
	most, err := strconv.Atoi(os.Getenv(childDeliveries))
	if err != nil {
		t.Fatal(err)
	}
	c, err := consumer.New(consumer.Unhurried(consumer.Config{
		Coordinators: []string{url}, Stream: stream, Group: group, MemberID: os.Getenv(childMember), Logger: quiet(),
		Redis: redis.UniversalOptions{Addrs: []string{os.Getenv(childRedis)}, ReadTimeout: patience}, AckInterval: every,
		Observer: diary{notes: notes}, DeadLetter: consumer.DeadLetter{Enabled: true}, Retry: consumer.Retry{MaxDeliveries: most},
		Handler: func(ctx context.Context, r consumer.Record) error {
			n := r.Values["n"]
			if err := notes.RPush(ctx, begunList, n).Err(); err != nil {
				return err
			}
			if poison[n] {
				os.Exit(3)
			}
			time.Sleep(500 * time.Microsecond)
			return notes.RPush(ctx, handledList, n).Err()
		},
	}))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := c.Run(ctx); err != nil {
		t.Fatal(err)
	}
}

// family keeps children running: one that ends is followed by another.
type family struct {
	env  []string
	stop chan struct{}
	wait sync.WaitGroup
	// coord is told of deaths: a member that is dead reads nothing, so nobody has to wait
	// for its lease, which lasts longer than a machine stands still.
	coord *coordinator

	mu     sync.Mutex
	deaths int
	wrong  []string
	// lives has the incarnations of members.
	lives map[string]string
}

// see notes who lives.
func (f *family) see(q *protocol.Heartbeat, _ *protocol.HeartbeatResponse) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lives[q.MemberID] = q.Incarnation
}

// mourn has a dead member leave.
func (f *family) mourn(ctx context.Context, member string) {
	f.mu.Lock()
	f.deaths++
	life, joined := f.lives[member]
	f.mu.Unlock()
	for n := 0; joined && ctx.Err() == nil; n++ {
		r := f.coord.Coordinator.Heartbeat(ctx, stream, group, &protocol.Heartbeat{
			ProtocolVersion: protocol.Version, RequestID: fmt.Sprint(member, " leaves ", n), MemberID: member, Incarnation: life, MemberEpoch: protocol.EpochLeave,
		})
		if r.Status != protocol.StatusRetry {
			return
		}
	}
}

func (f *family) raise(ctx context.Context, name string) {
	f.wait.Go(func() {
		for life := 0; ; life++ {
			member := fmt.Sprint(name, "-", life)
			cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestChild$", "-test.count=1")
			cmd.Env = append(append(os.Environ(), f.env...), childMember+"="+member)
			var out strings.Builder
			cmd.Stdout, cmd.Stderr = &out, &out
			if err := cmd.Start(); err != nil {
				f.note(fmt.Sprint("start a child: ", err))
				return
			}
			ended := make(chan struct{})
			go func() {
				_ = cmd.Wait()
				close(ended)
			}()
			select {
			case <-ended:
				if code := cmd.ProcessState.ExitCode(); code != 3 {
					f.note(fmt.Sprintf("a child ended with %d:\n%s", code, out.String()))
					return
				}
				f.mourn(ctx, member)
			case <-f.stop:
				_ = cmd.Process.Signal(syscall.SIGTERM)
				<-ended
				return
			}
		}
	})
}

func (f *family) note(text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.wrong = append(f.wrong, text)
}

func (f *family) broken() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Join(f.wrong, "\n")
}

// TestAHandlerEndsTheProcess: what ends the process comes to the dead-letter
// stream, and it alone: not what ran beside it, not what was handled and whose
// acknowledgement went down with the process.
func TestAHandlerEndsTheProcess(t *testing.T) {
	for _, tc := range []struct {
		name             string
		shards, children int
		records          int
		poison           []int
		ackInterval      time.Duration
		maxDeliveries    int
	}{
		{"one", 1, 1, 200, []int{77}, 10 * time.Millisecond, 5},
		{"lost acknowledgements", 2, 1, 300, []int{31}, 5 * time.Second, 3},
		{"several of both", 4, 2, 400, []int{20, 21, 22, 200, 333}, 50 * time.Millisecond, 5},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBed(t, tc.shards, steady)
			web := serve(t, b.coord, nil)
			b.add(tc.records)
			var poison []string
			bad := map[string]bool{}
			for _, n := range tc.poison {
				poison = append(poison, strconv.Itoa(n))
				bad[strconv.Itoa(n)] = true
			}
			f := &family{coord: b.coord, lives: map[string]string{}, stop: make(chan struct{}), env: []string{
				childCoordinator + "=" + web.URL, childRedis + "=" + b.server.Addr, childPoison + "=" + strings.Join(poison, ","),
				childAckInterval + "=" + tc.ackInterval.String(), childDeliveries + "=" + strconv.Itoa(tc.maxDeliveries),
			}}
			b.coord.watch(f.see)
			ctx, kill := context.WithCancel(context.Background())
			defer f.wait.Wait()
			defer kill()
			for i := range tc.children {
				f.raise(ctx, fmt.Sprint("child-", i))
			}
			good := tc.records - len(tc.poison)
			letters := func() []redis.XMessage { return b.redis.XRange(ctx, stream+consumer.DeadLetterSuffix, "-", "+").Val() }
			handled := func() map[string]int {
				counts := map[string]int{}
				for _, n := range b.redis.LRange(ctx, handledList, 0, -1).Val() {
					counts[n]++
				}
				return counts
			}
			// The same may be there twice, since its member may have ended in between. What
			// was handled and not acknowledged by then is still to be taken over.
			dead := func() int {
				ids := map[any]bool{}
				for _, m := range letters() {
					ids[m.Values["n"]] = true
				}
				return len(ids)
			}
			for deadline := time.Now().Add(3 * patience); len(handled()) < good || dead() < len(poison) || b.pending() > 0; time.Sleep(20 * time.Millisecond) {
				if time.Now().After(deadline) || f.broken() != "" {
					t.Fatalf("%d of %d records were handled, %d of %d are dead letters, after %d deaths\n%s", len(handled()), good, dead(), len(poison), f.deaths, f.broken())
				}
			}
			close(f.stop)
			f.wait.Wait()
			if f.broken() != "" {
				t.Error(f.broken())
			}
			begun := map[string]int{}
			for _, n := range b.redis.LRange(ctx, begunList, 0, -1).Val() {
				begun[n]++
			}
			found := map[string]bool{}
			for _, m := range letters() {
				n := fmt.Sprint(m.Values["n"])
				found[n] = true
				if !bad[n] {
					t.Errorf("record %s is innocent and a dead letter: %v", n, m.Values)
					continue
				}
				// One that was merely read, or just about to begin, when another ended the
				// process counts for begun. At the end it was alone.
				if m.Values[consumer.DeadLetterDeliveries] != strconv.Itoa(tc.maxDeliveries) || begun[n] < 1 || begun[n] > tc.maxDeliveries {
					t.Errorf("record %s was begun %d times and says %v, want %d", n, begun[n], m.Values, tc.maxDeliveries)
				}
				if !strings.Contains(fmt.Sprint(m.Values[consumer.DeadLetterError]), "process") {
					t.Errorf("record %s says %q", n, m.Values[consumer.DeadLetterError])
				}
			}
			if len(found) != len(poison) {
				t.Errorf("dead letters %v, want those of %v", found, poison)
			}
			counts, twice, most := handled(), 0, 0
			for n, times := range counts {
				if bad[n] {
					t.Errorf("record %s is bad and was handled", n)
				}
				if times > 1 {
					twice++
				}
				most = max(most, begun[n])
			}
			if n := b.pending(); n != 0 {
				t.Errorf("%d records are pending", n)
			}
			t.Logf("%d deaths, %d of %d records handled again, an innocent one begun %d times at most, shards lost: %v",
				f.deaths, twice, good, most, b.redis.LRange(context.Background(), lostList, 0, -1).Val())
		})
	}
}
