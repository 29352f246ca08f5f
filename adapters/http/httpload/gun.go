package httpload

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// maxComplaints bounds how many answers that are no good are kept for the report.
const maxComplaints = 3

// Gun holds ready-made keepalives of one group. Make one with NewGun.
type Gun struct {
	target *Target
	rounds []round
	within time.Duration
}

// round is one request. Its id is in it once, as idDigits digits.
type round struct {
	request []byte
	id      []byte // the part of request
}

const (
	idPrefix = "load-"
	idDigits = 12
)

// NewGun makes the requests of these heartbeats. within is how long an answer may
// take.
func NewGun(t *Target, stream, group string, keepalives []*protocol.Heartbeat, within time.Duration) (*Gun, error) {
	g := &Gun{target: t, rounds: make([]round, len(keepalives)), within: within}
	mark := []byte(idPrefix + fmt.Sprintf("%0*d", idDigits, 0))
	for i, q := range keepalives {
		one := *q
		one.RequestID = string(mark)
		body, err := json.Marshal(&one)
		if err != nil {
			return nil, fmt.Errorf("encode a heartbeat: %w", err)
		}
		request := t.HeartbeatRequest(stream, group, q.MemberID, body)
		at := bytes.LastIndex(request, mark)
		g.rounds[i] = round{request: request, id: request[at+len(idPrefix) : at+len(mark)]}
	}
	return g, nil
}

// Result is what came of firing.
type Result struct {
	// OK counts the answers with status OK to the request that was sent.
	OK int64
	// Failed counts all others, and requests without an answer.
	Failed int64
	// Complaints are some of what Failed counts.
	Complaints []string
	// Took is the time from the first request to the last answer.
	Took time.Duration
	// Latency has the time of each answer counted in OK.
	Latency Histogram
}

// PerSecond returns the good answers of a second.
func (r *Result) PerSecond() float64 { return float64(r.OK) / r.Took.Seconds() }

// Add counts what o has counted; Took is the longer of the two.
func (r *Result) Add(o *Result) {
	r.OK += o.OK
	r.Failed += o.Failed
	r.Took = max(r.Took, o.Took)
	r.Latency.Add(&o.Latency)
	r.Complaints = append(r.Complaints, o.Complaints[:min(len(o.Complaints), max(0, maxComplaints-len(r.Complaints)))]...)
}

func (r *Result) complain(what string) {
	r.Failed++
	if len(r.Complaints) < maxComplaints {
		r.Complaints = append(r.Complaints, what)
	}
}

// Fire sends keepalives over so many connections, on each the next one as soon as
// the last one is answered, until ctx ends, but at least one. Each connection has
// members of its own, so no member has two requests under way; more connections than
// members are not made.
// Errors: a connection that cannot be made.
func (g *Gun) Fire(ctx context.Context, connections int) (*Result, error) {
	conns, err := g.dial(ctx, connections)
	defer hangUp(conns)
	if err != nil {
		return nil, err
	}
	return g.over(ctx, conns), nil
}

// FireFor is Fire for some time, which begins when the connections are made.
// Errors: a connection that cannot be made.
func (g *Gun) FireFor(ctx context.Context, connections int, d time.Duration) (*Result, error) {
	conns, err := g.dial(ctx, connections)
	defer hangUp(conns)
	if err != nil {
		return nil, err
	}
	ctx, end := context.WithTimeout(ctx, d)
	defer end()
	return g.over(ctx, conns), nil
}

// dial makes connections; those it returns are to be closed, also on an error.
func (g *Gun) dial(ctx context.Context, connections int) (conns []*Conn, err error) {
	for range max(1, min(connections, len(g.rounds))) {
		c, err := Dial(ctx, g.target)
		if err != nil {
			return conns, err
		}
		conns = append(conns, c)
	}
	return conns, nil
}

func hangUp(conns []*Conn) {
	for _, c := range conns {
		_ = c.Close()
	}
}

// over fires over connections until ctx ends.
func (g *Gun) over(ctx context.Context, conns []*Conn) *Result {
	results := make([]Result, len(conns))
	var ids atomic.Int64
	var wait sync.WaitGroup
	began := time.Now()
	for i, c := range conns {
		wait.Go(func() { g.fire(ctx, c, i, len(conns), &ids, &results[i]) })
	}
	wait.Wait()
	all := &Result{Took: time.Since(began)}
	for i := range results {
		all.Add(&results[i])
	}
	return all
}

// idsAtOnce is how many request ids a connection draws together.
const idsAtOnce = 1024

func (g *Gun) fire(ctx context.Context, c *Conn, first, step int, ids *atomic.Int64, r *Result) {
	var id, last int64
	for i := first; ; i += step {
		if i >= len(g.rounds) {
			i = first
		}
		if id == last {
			last = ids.Add(idsAtOnce)
			id = last - idsAtOnce
		}
		id++
		if err := g.rounds[i].fire(c, id, g.within, r); err != nil {
			r.complain(err.Error())
			return
		}
		if ctx.Err() != nil {
			return
		}
	}
}

var statusOK = []byte(`"status":"OK"`)

// fire sends one request and looks at the answer.
// Errors: those of the connection.
func (x *round) fire(c *Conn, id int64, within time.Duration, r *Result) error {
	for i, n := idDigits-1, id; i >= 0; i, n = i-1, n/10 {
		x.id[i] = '0' + byte(n%10)
	}
	sent := time.Now()
	status, body, err := c.RoundTrip(x.request, within)
	switch {
	case err != nil:
		return errors.Join(errors.New("a heartbeat was not answered"), err)
	case status == http.StatusOK && bytes.Contains(body, statusOK) && bytes.Contains(body, x.id):
		r.OK++
		r.Latency.Record(time.Since(sent))
	default:
		r.complain(strconv.Itoa(status) + " " + string(body[:min(len(body), 300)]))
	}
	return nil
}
