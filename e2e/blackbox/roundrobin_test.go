package blackbox

import (
	"bytes"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// maxBody bounds a request that is passed on.
const maxBody = 1 << 20

// roundRobin is a load balancer: it passes each request to the next coordinator,
// and to the one after it when that one takes no connection.
type roundRobin struct {
	coordinators []*coordinator
	next         atomic.Int64
	served       []atomic.Int64
}

// RoundTrip is the transport of the reverse proxy.
func (b *roundRobin) RoundTrip(request *http.Request) (*http.Response, error) {
	var body []byte
	if request.Body != nil {
		var err error
		if body, err = io.ReadAll(io.LimitReader(request.Body, maxBody)); err != nil {
			return nil, err
		}
	}
	first := int(b.next.Add(1))
	var err error
	for i := range b.coordinators {
		at := (first + i) % len(b.coordinators)
		attempt := request.Clone(request.Context())
		attempt.URL.Host, attempt.Body = b.coordinators[at].host, io.NopCloser(bytes.NewReader(body))
		var response *http.Response
		if response, err = http.DefaultTransport.RoundTrip(attempt); err == nil {
			b.served[at].Add(1)
			return response, nil
		}
		if !strings.Contains(err.Error(), "connection refused") {
			break // it may have been applied: the client is told
		}
	}
	return nil, err
}

// balance puts a load balancer before coordinators.
func balance(t *testing.T, coordinators []*coordinator) (url string, b *roundRobin) {
	t.Helper()
	b = &roundRobin{coordinators: coordinators, served: make([]atomic.Int64, len(coordinators))}
	server := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.Out.URL.Scheme, r.Out.URL.Host = "http", "coordinators" },
		Transport: b,
		ErrorLog:  log.New(io.Discard, "", 0),
	})
	t.Cleanup(server.Close)
	return server.URL, b
}

// holding is what must not change about a member.
type holding struct {
	state       protocol.MemberState
	incarnation string
	epoch       protocol.Epoch
	shards      protocol.Shards
}

func (c *coordinator) holdings() map[string]holding {
	c.t.Helper()
	all := map[string]holding{}
	for id, m := range c.members() {
		all[id] = holding{m.State, m.Incarnation, m.MemberEpoch, m.GrantedAssignment}
	}
	return all
}

// Three coordinators share one Redis behind a load balancer that gives each
// request to another one. Killing one of them and starting it again ends no
// member, moves no shard, and repeats no record.
func TestACoordinatorOfThreeIsKilled(t *testing.T) {
	const (
		shards = 6
		// Whatever ends because of a coordinator's absence has ended by then.
		long = lease + heartbeat + tick + 500*time.Millisecond
	)
	redis := startRedis(t)
	var coordinators []*coordinator
	for _, id := range []string{"one", "two", "three"} {
		coordinators = append(coordinators, startCoordinator(t, "--redis", redis.url, "--id", id))
	}
	url, balancer := balance(t, coordinators)
	victim, survivor := coordinators[0], coordinators[1]
	survivor.createStream(shards)
	k := tools{t: t, coordinators: []string{url}, redis: redis}
	j := newJournal(t)
	consumers := []*process{k.consume("first", j), k.consume("second", j), k.consume("third", j)}
	eventually(t, startTimeout, "each consumer holds two shards and says so", func() bool {
		for _, m := range survivor.members() {
			if len(m.CurrentAssignment) != 2 || m.AckedEpoch != m.MemberEpoch {
				return false
			}
		}
		members, held := survivor.holders()
		return members == 3 && held == shards
	})
	said := map[*process]int{}
	for _, consumer := range consumers {
		said[consumer] = len(consumer.log())
	}
	produce := k.feed()
	before := survivor.holdings()
	unchanged := func() bool {
		for _, c := range coordinators {
			if c.proc.runs() && !reflect.DeepEqual(c.holdings(), before) {
				t.Errorf("%s sees %v, it was %v", c.host, c.holdings(), before)
				return false
			}
		}
		return true
	}
	flows := func(when string) {
		t.Helper()
		sofar := j.count()
		eventually(t, long, "records flow "+when, func() bool { return j.count() > sofar+50 })
	}
	flows("at first")

	victim.proc.kill()
	flows("after the kill")
	during(t, long, "nothing changes after the kill", unchanged)
	servedBy := balancer.served[0].Load()
	victim.restart()
	during(t, long, "nothing changes after the restart", unchanged)
	flows("after the restart")
	if balancer.served[0].Load() == servedBy {
		t.Error("the restarted coordinator was asked nothing")
	}

	lines := produce.stopFeeding()
	if code := produce.wait(startTimeout); code != 0 {
		t.Errorf("rsc produce exited with %d", code)
	}
	eventually(t, startTimeout, "all lines come out", func() bool { return j.take() == len(lines) })
	for _, consumer := range consumers {
		consumer.forbidLog(said[consumer], "the lease ended", "the coordinator ended this incarnation", "shard revoked", "shard lost")
		consumer.stop()
	}
	j.take()
	j.expectAll(lines)
	j.expectOrder()
	if n := j.duplicates(); n > 0 {
		t.Errorf("%d records came out twice, although no shard moved", n)
	}
	t.Logf("%d records; requests answered: %d, %d and %d; members all the time: %v", len(lines),
		balancer.served[0].Load(), balancer.served[1].Load(), balancer.served[2].Load(), before)
}
