package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/redis-stream-coordinator/rsc/adapters/http/httpload"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

const (
	stream, group = "orders", "billing"
	// answerTimeout bounds one heartbeat.
	answerTimeout = 60 * time.Second
	// settleAtOnce is how many members of a fleet speak at the same time.
	settleAtOnce = 1000
)

// keepalivesStage is a coordinator on Redis with a settled group, reached through
// HTTP; beside it a bare handler that gives the same answers and does nothing else,
// and kfake.
type keepalivesStage struct {
	b        *bench
	c        *coordinator
	target   *httpload.Target
	requests []*protocol.Heartbeat
	bare     *bare
	kafka    *kafka
}

func openKeepalives(ctx context.Context, b *bench) (_ stage, err error) {
	s := &keepalivesStage{b: b}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close(ctx))
		}
	}()
	if s.c, err = startCoordinator(ctx, plan{redis: b.redis.addr, http: true}); err != nil {
		return nil, err
	}
	if s.requests, err = s.c.settled(ctx, b.members, b.shards); err != nil {
		return nil, err
	}
	if s.target, err = httpload.NewTarget(s.c.url, "", ""); err != nil {
		return nil, err
	}
	if s.bare, err = startBare(ctx, s.requests); err != nil {
		return nil, err
	}
	s.kafka, err = startKafka(ctx, b)
	return s, err
}

func (s *keepalivesStage) close(ctx context.Context) error {
	var errs []error
	if s.c != nil {
		errs = append(errs, s.c.close(ctx))
	}
	if s.bare != nil {
		errs = append(errs, s.bare.close())
	}
	if s.kafka != nil {
		s.kafka.close()
	}
	return errors.Join(errs...)
}

func (s *keepalivesStage) round(ctx context.Context, n int) (measured, error) {
	m := measured{}
	turns := []func() error{
		func() error { return s.ours(ctx, m) },
		func() error { return s.beside(ctx, m) },
		func() (err error) {
			m["kfake"], err = s.kafka.keepalives(ctx, s.b.sample)
			return err
		},
	}
	for turn := range turns {
		// Another one begins each round: what the first leaves in caches and heaps
		// meets the second.
		if err := turns[(turn+n)%len(turns)](); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (s *keepalivesStage) ours(ctx context.Context, m measured) error {
	before, err := s.b.redis.counters(ctx)
	if err != nil {
		return err
	}
	bodies := s.c.store.bodies.Load()
	started := takeUsage()
	r, err := s.b.fire(ctx, s.target, s.requests)
	if err != nil {
		return err
	}
	used := takeUsage().cpu - started.cpu
	after, err := s.b.redis.counters(ctx)
	if err != nil {
		return err
	}
	beats := float64(r.OK)
	m["rsc"] = r.PerSecond()
	m["p99"] = milliseconds(r.Latency.Quantile(0.99))
	m["CPU with its callers"] = microseconds(used) / beats
	m["script calls"] = 1000 * float64(after.scripts-before.scripts) / beats
	m["aggregate bytes"] = float64(s.c.store.bodies.Load() - bodies)
	m["Redis bytes"] = float64(after.in-before.in+after.out-before.out) / beats
	return nil
}

func (s *keepalivesStage) beside(ctx context.Context, m measured) error {
	r, err := s.b.fire(ctx, s.bare.target, s.requests)
	if err != nil {
		return fmt.Errorf("the bare handler: %w", err)
	}
	m["bare"] = r.PerSecond()
	return nil
}

// fire sends keepalives for one sample and refuses a sample with failures.
func (b *bench) fire(ctx context.Context, target *httpload.Target, requests []*protocol.Heartbeat) (*httpload.Result, error) {
	gun, err := httpload.NewGun(target, stream, group, requests, answerTimeout)
	if err != nil {
		return nil, err
	}
	ctx, done := context.WithTimeout(ctx, b.sample)
	defer done()
	r, err := gun.Fire(ctx, b.connections)
	if err != nil {
		return nil, err
	}
	if r.Failed > 0 {
		return nil, fmt.Errorf("%d of %d heartbeats failed: %v", r.Failed, r.OK+r.Failed, r.Complaints)
	}
	return r, nil
}

// bare is a handler that decodes the same requests and encodes the same answers,
// with the same functions, and has nothing between the two.
type bare struct {
	target  *httpload.Target
	server  *http.Server
	running sync.WaitGroup
	answers map[string]protocol.HeartbeatResponse
}

func startBare(ctx context.Context, requests []*protocol.Heartbeat) (*bare, error) {
	x := &bare{answers: map[string]protocol.HeartbeatResponse{}}
	for _, q := range requests {
		r := protocol.NewHeartbeatResponse(q, protocol.StatusOK, "", protocol.DefaultTimings())
		r.GroupEpoch, r.AssignmentEpoch = q.MemberEpoch, q.MemberEpoch
		r.MetadataVersion, r.Assignment.MetadataVersion = q.MetadataVersion, q.MetadataVersion
		for _, s := range q.OwnedShards {
			r.Assignment.AssignedShards = append(r.Assignment.AssignedShards, protocol.AssignedShard{Shard: s, Epoch: q.MemberEpoch})
		}
		x.answers[q.MemberID] = r
	}
	server, url, err := serve(ctx, x, &x.running)
	if err != nil {
		return nil, err
	}
	x.server = server
	x.target, err = httpload.NewTarget(url, "", "")
	return x, err
}

func (x *bare) close() error {
	err := x.server.Close()
	x.running.Wait()
	return err
}

// ServeHTTP answers a heartbeat.
func (x *bare) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	text, err := x.answer(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	_, _ = w.Write(text) // the only error is that the caller is gone
}

func (x *bare) answer(in io.Reader) ([]byte, error) {
	body, err := io.ReadAll(in)
	if err != nil {
		return nil, err
	}
	q, err := protocol.DecodeHeartbeat(body)
	if err != nil {
		return nil, err
	}
	answer := x.answers[q.MemberID]
	answer.ResponseTo = q.RequestID
	return json.Marshal(&answer)
}
