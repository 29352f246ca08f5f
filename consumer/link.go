package consumer

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// shortBlock bounds a read where it cannot be unblocked.
	shortBlock = 200 * time.Millisecond
	// latePatience is how long a connection is given to return from a command when
	// its reader is to stop and time is up, before it is cut off.
	latePatience = 30 * time.Millisecond
)

// link is the way to the server that holds one shard: a connection of its own, on
// which reads block, or a place in the rota of the server, which polls. One
// goroutine sends commands on it; another may stop it.
type link struct {
	servers *servers
	// node is the server at the other end.
	node *node
	key  string
	// conn sends commands that do not block.
	conn redis.Cmdable
	// asking: the key is on its way to this server, see asks.
	asking bool
	// opened is when the link was made.
	opened time.Time

	// client has the connection only, so closing it cuts off a command that does
	// not return; sticky is that connection. Both are nil in a rota.
	client *redis.Client
	sticky *redis.Conn
	// turn is how the shard waits in the rota of the node, nil without one.
	turn *turn

	// reached is the server at the other end, with Sentinel.
	reached reached

	// id is the connection's number on the server, 0 where it cannot be unblocked.
	id int64
	// timeout bounds a command beyond the time that it blocks, dial the
	// connecting.
	timeout, dial time.Duration

	mu      sync.Mutex
	stopped bool
	// busy is closed when the command under way has returned, nil without one.
	busy chan struct{}
	// blocking is how long the command under way may block.
	blocking time.Duration
	// halt is closed by stop, severed when the link is cut off.
	halt, severed chan struct{}
	cut, gone     sync.Once
}

var (
	// errStopped is what a link answers after stop.
	errStopped = errors.New("the reader was stopped")
	// errSevered is what a read in a rota answers when its link was cut off.
	errSevered = errors.New("the server did not answer in time")
)

// polled reports whether the link waits in a rota.
func (l *link) polled() bool { return l.turn != nil }

// connect opens the connection, and finds out whether reads on it can be
// unblocked: not every server knows CLIENT, and not every user may call it. That
// is asked of each connection, since another server may answer the next one. ctx
// ends the connecting.
func (l *link) connect(ctx context.Context) error {
	if l.polled() {
		return nil
	}
	return l.run(0, l.dial+l.timeout, func() error {
		id, err := l.sticky.ClientID(ctx).Result()
		if err == nil {
			// Nothing is blocked yet, so this does nothing but show that it may be done.
			err = l.node.client.ClientUnblock(ctx, id).Err()
		}
		switch {
		case err == nil:
			l.mu.Lock()
			l.id = id
			l.mu.Unlock()
			return nil
		case refusesClient(err):
			return nil
		}
		return err
	})
}

// look asks for the first entry that is pending behind an id, in the same round
// trip as a read, once that has returned.
type look struct {
	after streamID
	// asked is set when first was found out: the id of that entry, 0-0 for none.
	asked bool
	first streamID
}

// take notes what came of it. An error is left to whoever asks again.
func (k *look) take(answer *redis.XPendingExtCmd) {
	page, err := answer.Result()
	if err != nil {
		return
	}
	k.asked = true
	if len(page) > 0 {
		k.first = parseID(page[0].ID)
	}
}

// read waits for new records of the group, for at most wait. It returns none when
// there are none. also may be nil; it is not asked where a rota reads, or on the
// way of a slot to another node.
func (l *link) read(ctx context.Context, group, consumer string, count int, wait time.Duration, also *look) ([]redis.XMessage, error) {
	if also != nil {
		// A pipeline as a whole has the timeout of the client, see servers.open.
		wait = min(wait, l.timeout)
	}
	if l.id == 0 && !l.polled() || l.asking {
		wait = min(wait, shortBlock)
	}
	// In whole milliseconds, and never 0: that would block for ever.
	wait = max(wait.Truncate(time.Millisecond), time.Millisecond)
	args := &redis.XReadGroupArgs{
		Group: group, Consumer: consumer, Streams: []string{l.key, ">"}, Count: int64(count), Block: wait,
	}
	var streams []redis.XStream
	err := l.do(wait, func() (err error) {
		if l.polled() {
			streams, err = l.turn.read(args, l.halt, l.severed)
			return err
		}
		if also == nil || l.asking {
			streams, err = l.sticky.XReadGroup(ctx, args).Result()
			return err
		}
		pipe := l.sticky.Pipeline()
		read := pipe.XReadGroup(ctx, args)
		pending := pipe.XPendingExt(ctx, &redis.XPendingExtArgs{
			Stream: l.key, Group: group, Start: also.after.next().String(), End: "+", Count: 1,
		})
		_, whole := pipe.Exec(ctx)
		streams, err = read.Result()
		if err == nil && len(streams) == 0 {
			// A pipeline that found no connection leaves its commands without an error;
			// "nothing there" has one.
			return whole
		}
		if err == nil || errors.Is(err, redis.Nil) {
			also.take(pending)
		}
		return err
	})
	if errors.Is(err, redis.Nil) || (err == nil && len(streams) == 0) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return streams[0].Messages, nil
}

// do sends a command, which blocks on the server for at most block.
// It returns errStopped without sending anything after stop.
func (l *link) do(block time.Duration, command func() error) error {
	// go-redis gives a blocking read ten seconds beyond its time.
	return l.run(block, block+l.timeout, command)
}

// run is do with another limit, at which the connection is cut.
func (l *link) run(block, limit time.Duration, command func() error) error {
	l.mu.Lock()
	if l.stopped {
		l.mu.Unlock()
		return errStopped
	}
	busy := make(chan struct{})
	l.busy, l.blocking = busy, block
	l.mu.Unlock()
	watch := time.AfterFunc(limit, l.sever)
	err := command()
	watch.Stop()
	l.mu.Lock()
	l.busy = nil
	l.mu.Unlock()
	close(busy)
	return err
}

// stop keeps further commands from being sent, and makes the one under way
// return: a blocked read is unblocked, which loses nothing, whereas cutting the
// connection might leave records delivered and unseen. When ctx ends, time is up and
// it is cut all the same. It returns when no command is under way.
func (l *link) stop(ctx context.Context) {
	l.mu.Lock()
	if !l.stopped {
		l.stopped = true
		close(l.halt)
	}
	busy, blocking, id := l.busy, l.blocking, l.id
	l.mu.Unlock()
	if busy == nil {
		return
	}
	patience := l.servers.patience
	if id == 0 && !l.polled() {
		patience += min(blocking, shortBlock)
	}
	cut := time.AfterFunc(patience, l.sever)
	defer cut.Stop()
	hurry := context.AfterFunc(ctx, func() { cut.Reset(latePatience) })
	defer hurry()
	ctx = plain(ctx)
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		if blocking > 0 && id != 0 {
			// It may overtake the read, which then blocks all the same: repeat it.
			l.unblock(ctx, id)
		}
		again := time.NewTimer(pause)
		select {
		case <-busy:
			again.Stop()
			return
		case <-again.C:
		}
	}
}

func (l *link) unblock(ctx context.Context, id int64) {
	ctx, done := context.WithTimeout(ctx, l.servers.patience)
	defer done()
	if err := l.node.client.ClientUnblock(ctx, id).Err(); err != nil {
		l.sever()
	}
}

// sever cuts the connection, also under a command.
func (l *link) sever() {
	l.cut.Do(func() {
		close(l.severed)
		if l.client != nil {
			_ = l.client.Close()
		}
	})
}

// close gives the link up. No command is under way.
func (l *link) close() {
	l.cut.Do(func() {
		close(l.severed)
		if l.client != nil {
			_ = l.sticky.Close()
			_ = l.client.Close()
		}
	})
	l.gone.Do(func() { l.servers.release(l) })
}
