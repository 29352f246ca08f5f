package httpload

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// HTTPBeat is a Beat over connections that are made as they are needed. Close it
// after use.
type HTTPBeat struct {
	target        *Target
	stream, group string
	within        time.Duration

	mu   sync.Mutex
	idle []*Conn
}

// NewHTTPBeat sends heartbeats to a group; an answer may take within.
func NewHTTPBeat(t *Target, stream, group string, within time.Duration) *HTTPBeat {
	return &HTTPBeat{target: t, stream: stream, group: group, within: within}
}

// Beat sends a heartbeat. Errors: no answer, or one that is no answer to a heartbeat.
func (b *HTTPBeat) Beat(ctx context.Context, q *protocol.Heartbeat) (*protocol.HeartbeatResponse, error) {
	body, err := json.Marshal(q)
	if err != nil {
		return nil, fmt.Errorf("encode a heartbeat: %w", err)
	}
	c, err := b.take(ctx)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	status, answer, err := c.RoundTrip(b.target.HeartbeatRequest(b.stream, b.group, q.MemberID, body), b.within)
	if err != nil || !stop() {
		_ = c.Close()
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return nil, err
	}
	if status != http.StatusOK {
		_ = c.Close()
		return nil, fmt.Errorf("the coordinator answers %d: %.300s", status, answer)
	}
	r := new(protocol.HeartbeatResponse)
	err = json.Unmarshal(answer, r)
	b.put(c)
	return r, err
}

func (b *HTTPBeat) take(ctx context.Context) (*Conn, error) {
	b.mu.Lock()
	if n := len(b.idle); n > 0 {
		c := b.idle[n-1]
		b.idle = b.idle[:n-1]
		b.mu.Unlock()
		return c, nil
	}
	b.mu.Unlock()
	return Dial(ctx, b.target)
}

func (b *HTTPBeat) put(c *Conn) {
	if c.closing {
		_ = c.Close()
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.idle = append(b.idle, c)
}

// Close closes the connections that are not in use.
func (b *HTTPBeat) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.idle {
		_ = c.Close()
	}
	b.idle = nil
}
