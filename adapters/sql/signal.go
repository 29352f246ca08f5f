package sql

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/port"
)

const (
	// probeInterval lies between two questions whether notifications still arrive, and
	// probePatience is how long one is waited for.
	probeInterval = 20 * time.Second
	probePatience = 5 * time.Second
	// firstListenPause and longestListenPause lie between two attempts to listen.
	firstListenPause   = 100 * time.Millisecond
	longestListenPause = 30 * time.Second
	// maxPayload is the longest notification that PostgreSQL takes.
	maxPayload = 7999
)

// errDeaf: notifications are sent and do not arrive.
var errDeaf = errors.New("notifications do not arrive, such as behind a pooler that lends connections for a transaction only")

// The first words of notifications.
const (
	changeWord = "change"
	probeWord  = "probe"
	anyWord    = "any"
)

// channel is where the changes of this store are told.
func (s *Store) channel() string { return s.cfg.TablePrefix + "changes" }

// announce tells of a change when the transaction ends.
func (t *tx) announce(ctx context.Context, c port.Change) error {
	if t.dialect.announce == nil {
		return nil
	}
	payload := fmt.Sprintf("%s %d %+q %+q %+q", changeWord, c.Revision, c.Nonce, c.Key.Stream, c.Key.Group)
	if len(payload) > maxPayload {
		payload = anyWord
	}
	return t.dialect.announce(ctx, t, t.channel(), payload)
}

// changeOf reads a notification. What it cannot make sense of may be of a newer program:
// then anything may have changed.
func changeOf(payload string) port.Change {
	var word string
	var c port.Change
	_, err := fmt.Sscanf(payload, "%s %d %q %q %q", &word, &c.Revision, &c.Nonce, &c.Key.Stream, &c.Key.Group)
	if err != nil || word != changeWord {
		return port.Change{Any: true}
	}
	return c
}

// Signal returns what tells of changes by other coordinators, nil where Config.Listen is
// not set.
func (s *Store) Signal() port.Signal {
	if s.cfg.Listen == nil {
		return nil
	}
	return (*signal)(s)
}

// signal is a Store that can listen.
type signal Store

// Watch implements port.Signal. Where notifications do not arrive it says so once, and
// tries again now and then.
func (g *signal) Watch(ctx context.Context, changed func(port.Change)) {
	s := (*Store)(g)
	silent := false
	for pause := firstListenPause; ctx.Err() == nil; {
		began := false
		err := s.listen(ctx, func(c port.Change) {
			if !began {
				began, pause = true, firstListenPause
				if silent {
					silent = false
					s.cfg.Logger.InfoContext(ctx, "changes by other coordinators are heard again", "channel", s.channel())
				}
			}
			changed(c)
		})
		if ctx.Err() != nil {
			return
		}
		if !silent {
			silent = true
			s.cfg.Logger.WarnContext(ctx, "changes by other coordinators are not heard, and seen at the next tick only", "channel", s.channel(), "err", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
			pause = min(2*pause, longestListenPause)
		}
	}
}

// listen listens on one connection until it breaks, or does not bring what is sent. The
// first that it tells is Any, when the first question has come back: whatever was
// written before is seen by who loads then.
func (s *Store) listen(ctx context.Context, changed func(port.Change)) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	p := &prober{begun: make(chan struct{}), heard: make(chan struct{}, 1)}
	var asking sync.WaitGroup
	asking.Go(func() { stop(p.run(ctx, s)) })
	defer asking.Wait()
	defer stop(nil)
	awake := false
	err := s.cfg.Listen(ctx, s.channel(), sync.OnceFunc(func() { close(p.begun) }), func(payload string) {
		if token, isProbe := strings.CutPrefix(payload, probeWord+" "); isProbe {
			if p.isMine(token) && !awake {
				awake = true
				changed(port.Change{Any: true})
			}
			return
		}
		if awake {
			changed(changeOf(payload))
		}
	})
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if err == nil {
		err = errors.New("it ended")
	}
	return err
}

// prober asks by notifications to itself whether they arrive.
type prober struct {
	begun chan struct{}
	// heard has room for one: the last question has come back.
	heard chan struct{}
	mu    sync.Mutex
	token string
}

// isMine reports whether a question is the last one that was asked here.
func (p *prober) isMine(token string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if token != p.token {
		return false
	}
	p.token = ""
	select {
	case p.heard <- struct{}{}:
	default:
	}
	return true
}

// run asks again and again, until ctx ends or a question does not come back.
func (p *prober) run(ctx context.Context, s *Store) error {
	select {
	case <-p.begun:
	case <-ctx.Done():
		return nil
	}
	for {
		p.mu.Lock()
		p.token = rand.Text()
		payload := probeWord + " " + p.token
		p.mu.Unlock()
		if err := s.probe(ctx, payload); err != nil {
			return err
		}
		select {
		case <-p.heard:
		case <-ctx.Done():
			return nil
		case <-time.After(probePatience):
			return errDeaf
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(probeInterval):
		}
	}
}

func (s *Store) probe(ctx context.Context, payload string) error {
	ctx, done := s.bounded(ctx)
	defer done()
	return s.transact(ctx, false, func(ctx context.Context, t *tx) error {
		return t.dialect.announce(ctx, t, t.channel(), payload)
	})
}
