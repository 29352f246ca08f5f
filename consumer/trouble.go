package consumer

import (
	"context"
	"log/slog"
	"time"
)

// well notes that a step went through.
func (w *worker) well() {
	w.redis.reset()
	w.redirects = 0
	attempts, since, say := w.ailment.over()
	if attempts > 0 {
		notify(w.p.observing, Observer.TroubleEnded, TroubleEndedEvent{Shard: w.shard, Lasted: time.Since(since), Failures: attempts})
	}
	if say {
		w.log.Info("the shard is read again", slog.Int("attempts", attempts), slog.Duration("after", time.Since(since).Round(time.Millisecond)))
	}
}

// trouble deals with an error: it follows a redirect, makes a lost group anew, or
// waits. Whatever it was, something may have been delivered to us that we have not
// seen, so the pending list is looked at next.
func (w *worker) trouble(ctx context.Context, err error) {
	w.sweepAt = time.Time{}
	if w.stopping(ctx) {
		return
	}
	if isGroupGone(err) {
		if err = w.restore(ctx, err); err == nil {
			// Not at once: what removed it may do so again.
			w.sleep(ctx, w.redis.pause())
			return
		}
		if w.stopping(ctx) {
			return
		}
		if isGroupGone(err) && w.awaited() {
			w.enter(ShardMissing)
			w.sleep(ctx, w.redis.pause())
			return
		}
	}
	if w.follow(ctx, err) {
		return
	}
	err = w.cause(ctx, err)
	from := ""
	if w.link != nil {
		from = w.link.node.addr
	}
	if !isGroupGone(err) {
		// A new connection finds a new master, and a server that came back.
		w.disconnect()
		w.p.servers.look(plain(ctx))
	}
	pause := w.redis.pause()
	f := w.diagnose(err)
	begins := w.ailment.condition().OK()
	complain(w.log, "the shard cannot be read", &w.ailment, f, err, pause)
	if begins {
		notify(w.p.observing, Observer.TroubleBegan, TroubleBeganEvent{Shard: w.shard, Err: err})
	}
	w.enter(ShardBroken)
	w.pause(ctx, pause, from)
}

// moveCheck is how often a pause looks whether the shard has another node by now.
const moveCheck = 200 * time.Millisecond

// pause waits, and no longer than until the map of the cluster has the shard at
// another node than from, the one that it could not be read from.
func (w *worker) pause(ctx context.Context, d time.Duration, from string) {
	for end := time.Now().Add(d); !w.stopping(ctx); {
		left := time.Until(end)
		if left <= 0 {
			return
		}
		if from == "" {
			w.sleep(ctx, left)
			return
		}
		w.sleep(ctx, min(left, moveCheck))
		if home := w.p.servers.home(plain(ctx), w.shard.Key); home != "" && home != from {
			return
		}
		w.p.servers.look(plain(ctx))
	}
}

// dropTrouble ends the trouble of a shard that is let go of.
func (w *worker) dropTrouble() {
	if attempts, since, _ := w.ailment.over(); attempts > 0 {
		notify(w.p.observing, Observer.TroubleEnded, TroubleEndedEvent{Shard: w.shard, Lasted: time.Since(since), Failures: attempts})
	}
}

func (w *worker) diagnose(err error) fault {
	f := w.p.servers.diagnose(err, w.shard.Stream)
	if f.kind == faultGroupGone && w.missing() {
		return fault{faultStreamMissing, "the coordinator was told and creates it again; producers wait for it too"}
	}
	return f
}

// follow has the next link lead to where a redirect points, at once: the command
// was not executed there, and the node it names is ready. Only nodes that send the
// reader around in a circle are waited out.
func (w *worker) follow(ctx context.Context, err error) bool {
	if !w.p.servers.clustered() || w.link == nil {
		return false
	}
	at, ok := redirected(err, w.link.node.addr)
	if !ok {
		return false
	}
	if w.redirects++; w.redirects > maxRedirects {
		w.redirects = 0
		return false
	}
	w.log.Debug("the shard is elsewhere", slog.String("node", at.addr), slog.Bool("ask", at.ask))
	w.at = at
	w.disconnect()
	if !at.ask {
		w.p.servers.look(plain(ctx))
	}
	return true
}
