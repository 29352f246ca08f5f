package blackbox

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/redis-stream-coordinator/rsc/e2e/faultkit"
	"github.com/redis-stream-coordinator/rsc/producer"
)

// Redis stands still for longer than the leases last, and later it is killed and
// started again with what it has on disk. Nobody has to be restarted, and what
// was acknowledged is there.
func TestRedisIsAwayForAWhile(t *testing.T) {
	t.Parallel()
	const (
		shards = 4
		frozen = lease + time.Second
		down   = time.Second
		within = startTimeout
	)
	redis := startRedis(t, faultkit.Options{Durable: true})
	c := startCoordinator(t, "--redis", redis.url)
	c.CreateStream(stream, shards)
	k := tools{t: t, coordinators: []string{c.URL}, redis: redis}
	j := newJournal(t)
	consumers := []*faultkit.Process{k.consume("first", j), k.consume("second", j)}
	faultkit.Eventually(t, startTimeout, "both consumers hold shards", func() bool {
		members, held := c.holders()
		return members == 2 && held == shards
	})
	produce := k.publish()
	flows := func(when string) time.Duration {
		t.Helper()
		began, sofar := time.Now(), j.take()
		faultkit.Eventually(t, within, "new records flow "+when, func() bool { return j.take() > sofar+100 })
		return time.Since(began)
	}
	flows("at first")

	redis.Pause()
	time.Sleep(frozen) // the event itself, nothing is waited for
	redis.Resume()
	afterFreeze := flows("after Redis stood still")

	redis.Kill()
	time.Sleep(down) // as above
	redis.Restart()
	afterRestart := flows("after Redis was restarted")

	lines := produce.stop()
	stored := redis.stored(shards)
	faultkit.Eventually(t, within, "everything comes out", func() bool { return j.take() >= len(stored) })
	faultkit.Eventually(t, within, "everything is acknowledged", func() bool { return redis.unacknowledged(shards) == 0 })
	for _, consumer := range consumers {
		consumer.Stop(startTimeout)
	}
	c.Proc.Stop(startTimeout)
	j.take()
	for l := range lines {
		if stored[l] == 0 {
			t.Errorf("the producer says that it is stored, and it is not in Redis: %s", l)
		}
	}
	lost := j.expectAll(stored)
	j.expectOrder()
	t.Logf("lines=%d stored=%d printed=%d duplicates=%d lost=%d", len(lines), len(stored), j.lines, j.duplicates(), lost)
	t.Logf("100 new records were out %s after a stand-still of %s, %s after a restart", afterFreeze.Round(time.Millisecond), frozen, afterRestart.Round(time.Millisecond))
}

// publisher is a producer of the public module that publishes lines one after the other
// at a steady pace, with more patience than rsc produce has: a machine that stands still
// may make Redis be away for longer than it is meant to be.
type publisher struct {
	t        *testing.T
	producer *producer.Producer
	// once ends it.
	once            func()
	stopping, ended chan struct{}
	// lines are those that it says are stored.
	lines map[string]int
}

func (k tools) publish() *publisher {
	k.t.Helper()
	p, err := producer.New(producer.Config{
		Coordinators: k.coordinators, Credentials: producer.BasicAuth("admin", "password"), Stream: stream,
		Redis: goredis.UniversalOptions{Addrs: []string{strings.TrimPrefix(k.redis.url, "redis://")}},
		// A lost answer leaves open whether the line is stored; it is sent again.
		RetryFor: startTimeout, RetryUncertain: true,
	})
	if err != nil {
		k.t.Fatal(err)
	}
	one := &publisher{t: k.t, producer: p, stopping: make(chan struct{}), ended: make(chan struct{}), lines: map[string]int{}}
	one.once = sync.OnceFunc(func() { close(one.stopping) })
	go one.run(context.WithoutCancel(k.t.Context()))
	k.t.Cleanup(func() {
		one.once()
		<-one.ended
		ctx, done := context.WithTimeout(context.Background(), startTimeout)
		defer done()
		if err := p.Close(ctx); err != nil {
			k.t.Errorf("close the producer: %v", err)
		}
	})
	return one
}

func (p *publisher) run(ctx context.Context) {
	defer close(p.ended)
	pace := time.NewTicker(feedPace)
	defer pace.Stop()
	for n := 0; ; n++ {
		select {
		case <-p.stopping:
			return
		case <-pace.C:
		}
		l := line{Key: fmt.Sprintf("customer-%02d", n%feedKeys), Seq: n / feedKeys, Text: "steady"}
		if _, err := p.producer.Publish(ctx, producer.Message{Key: l.Key, Payload: []byte(l.encode())}); err != nil {
			p.t.Errorf("publish %s: %v", l.encode(), err)
			return
		}
		p.lines[l.encode()]++
	}
}

// stop ends it and returns the lines that are stored.
func (p *publisher) stop() map[string]int {
	p.once()
	<-p.ended
	return p.lines
}
