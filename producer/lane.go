package producer

import (
	"context"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

// lane sends messages to one node, in order, one part at a time.
type lane struct {
	p       *Producer
	client  *redis.Client
	ask     bool // the node is importing the slot: ASKING goes before each command
	release func()
	err     error // why there is no client
	probe   bool  // one message finds out whether a trouble is over
	entries []*entry

	// args and cmds are used again for each part.
	args []any
	cmds []*redis.StringCmd
}

// close gives the lane's client back.
func (l *lane) close() {
	if l.release != nil {
		l.release()
	}
}

// run sends until everything is stored, or something failed: what comes behind
// is then left unsent, because the failed message may be sent again and must not
// be overtaken. s is checked before each part, since sending takes time.
func (l *lane) run(ctx context.Context, s *snapshot) {
	defer l.close()
	if l.err != nil {
		for _, e := range l.entries {
			e.verdict = judge(ctx, l.err, false)
		}
		return
	}
	for rest := l.entries; len(rest) > 0 && ctx.Err() == nil && s.valid(time.Now()); {
		n := l.cut(rest)
		l.exchange(ctx, rest[:n])
		part := rest[:n]
		l.probe = false
		rest = rest[n:]
		if i := slices.IndexFunc(part, func(e *entry) bool { return e.verdict.kind.troubles() }); i >= 0 {
			// The node or the way to it is in trouble, which the rest would only run into too.
			v := verdict{kind: passing, err: ErrRedisUnavailable.because(part[i].verdict.err.Err)}
			for _, e := range rest {
				e.verdict = v
			}
			return
		}
		if slices.ContainsFunc(part, func(e *entry) bool { return e.verdict.kind != stored }) {
			return
		}
	}
}

// cut returns how many of the entries make up the next part.
func (l *lane) cut(entries []*entry) int {
	n, bytes := 0, 0
	if l.probe {
		return 1
	}
	for _, e := range entries {
		if bytes += e.size; n > 0 && (n == l.p.cfg.PipelineMessages || bytes > l.p.cfg.PipelineBytes) {
			break
		}
		n++
	}
	return n
}

// exchange sends one part and judges every message of it.
func (l *lane) exchange(ctx context.Context, part []*entry) {
	l.args, l.cmds = l.args[:0], l.cmds[:0]
	for i, e := range part {
		from := len(l.args)
		l.args = e.appendArgs(l.args, l.p.cfg.OmitKeyField, l.p.limit, i == 0)
		// Args that moved to a larger array since stay valid where they were.
		l.cmds = append(l.cmds, e.command(ctx, l.args[from:len(l.args):len(l.args)]))
	}
	var began time.Time
	if l.p.observing != nil {
		began = time.Now()
	}
	var whole error
	trouble := false
	if len(part) == 1 && !l.ask {
		whole = l.client.Process(ctx, l.cmds[0])
	} else {
		pipe := l.client.Pipeline()
		for _, cmd := range l.cmds {
			if l.ask {
				pipe.Do(ctx, "asking")
			}
			_ = pipe.Process(ctx, cmd) // queues only
		}
		_, whole = pipe.Exec(ctx)
	}
	for i, e := range part {
		e.take(ctx, l.cmds[i], whole)
		if e.verdict.kind == refused && l.p.nodes.forgot(e.verdict.err) {
			e.verdict = verdict{kind: passing, err: ErrRedisUnavailable.because(e.verdict.err.Err)}
		}
		l.cmds[i] = nil
		switch e.verdict.kind {
		case redirected:
			e.verdict.addr = completeAddr(e.verdict.addr, l.client.Options().Addr)
		case passing, uncertain:
			trouble = true
		default:
		}
	}
	if trouble {
		// The node may have been replaced, which its own silence does not tell.
		l.p.nodes.moved(ctx)
	}
	l.p.exchanged(l.client.Options().Addr, part, began)
}
