package server

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis-stream-coordinator/rsc/coordinator/internal/config"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// wayward is a coordinator that refuses the first calls.
type wayward struct {
	refusals []error
	streams  map[string][]string
	calls    int
}

func (w *wayward) refuse() error {
	w.calls++
	if len(w.refusals) == 0 {
		return nil
	}
	err := w.refusals[0]
	w.refusals = w.refusals[1:]
	return err
}

func (w *wayward) Stream(_ context.Context, prefix string) (protocol.Stream, error) {
	if err := w.refuse(); err != nil {
		return protocol.Stream{}, err
	}
	groups, there := w.streams[prefix]
	if !there {
		return protocol.Stream{}, protocol.ErrStreamNotFound
	}
	return protocol.Stream{StreamPrefix: prefix, ShardCount: 2, Groups: groups}, nil
}

func (w *wayward) CreateStream(_ context.Context, prefix string, r protocol.CreateStream) (protocol.StreamCreated, error) {
	if err := r.Validate(protocol.MaxShards); err != nil {
		return protocol.StreamCreated{}, err
	}
	if err := w.refuse(); err != nil {
		return protocol.StreamCreated{}, err
	}
	w.streams[prefix] = []string{}
	return protocol.StreamCreated{}, nil
}

func (w *wayward) CreateGroup(_ context.Context, prefix, group string, r protocol.CreateGroup) (protocol.Group, error) {
	if err := r.Validate(protocol.MaxShards); err != nil {
		return protocol.Group{}, err
	}
	if err := w.refuse(); err != nil {
		return protocol.Group{}, err
	}
	w.streams[prefix] = append(w.streams[prefix], group)
	return protocol.Group{}, nil
}

var declaredOrders = []config.Declared{{Prefix: "orders", Shards: 2, Groups: []string{"a", "b"}, GroupStart: "earliest", AutoCreateGroups: true}}

// What may pass is tried again until it did.
func TestDeclareTriesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := new(logBuffer)
		w := &wayward{streams: map[string][]string{}, refusals: []error{protocol.ErrStoreUnavailable, protocol.ErrStoreUnavailable, protocol.ErrStreamNotFound, nil, nil, protocol.ErrProvisioning}}
		start := time.Now()
		left := declareOnce(t.Context(), w, declaredOrders, log.logger())
		if len(left) != 1 || time.Since(start) != 0 {
			t.Errorf("left %v after %s", left, time.Since(start))
		}
		declare(t.Context(), w, left, log.logger())
		if !slices.Equal(w.streams["orders"], []string{"a", "b"}) {
			t.Errorf("streams %v\n%s", w.streams, log)
		}
		if took := time.Since(start); took != 200*time.Millisecond+400*time.Millisecond+800*time.Millisecond {
			t.Errorf("took %s", took)
		}
	})
}

// What cannot pass is said once, and the others are made.
func TestDeclareGivesUp(t *testing.T) {
	log := new(logBuffer)
	w := &wayward{streams: map[string][]string{}, refusals: []error{protocol.ErrStreamNotFound, protocol.ErrInvalidRequest}}
	left := declareOnce(t.Context(), w, append(slices.Clone(declaredOrders), config.Declared{Prefix: "pay", Shards: 2}), log.logger())
	if len(left) != 0 {
		t.Errorf("left %v", left)
	}
	if _, there := w.streams["pay"]; !there || len(w.streams) != 1 {
		t.Errorf("streams %v", w.streams)
	}
	if strings.Count(log.String(), "cannot be made") != 1 {
		t.Errorf("log:\n%s", log)
	}
}

func TestDeclareEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		w := &wayward{refusals: slices.Repeat([]error{protocol.ErrStoreUnavailable}, 1000)}
		declare(ctx, w, declaredOrders, new(logBuffer).logger())
		if w.calls < 5 || w.calls > 20 {
			t.Errorf("%d calls in a minute", w.calls)
		}
		if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			t.Errorf("ended before its context: %v", ctx.Err())
		}
	})
}

// Another coordinator with the same settings may be faster at each step.
func TestDeclareMeetsAnother(t *testing.T) {
	w := &wayward{streams: map[string][]string{"orders": {}}, refusals: []error{protocol.ErrStreamNotFound, protocol.ErrStreamExists, nil, protocol.ErrGroupExists}}
	log := new(logBuffer)
	left := declareOnce(t.Context(), w, declaredOrders, log.logger())
	if len(left) != 0 || !slices.Equal(w.streams["orders"], []string{"b"}) || strings.Contains(log.String(), "cannot") {
		t.Errorf("streams %v\n%s", w.streams, log)
	}
}
