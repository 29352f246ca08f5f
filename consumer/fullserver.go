package consumer

import (
	"context"
	"errors"
	"io"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// errServerFull is what a server without a free connection says.
var errServerFull = errors.New("ERR max number of clients reached")

// hungUp reports whether the other side has closed a connection.
func hungUp(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)
}

// full looks whether a server that hangs up has no connection to give. It says so
// before it hangs up, but the client takes that for the answer to its greeting and
// reports the broken connection only. So one more is opened, and listened to.
func (l *link) full(ctx context.Context) bool {
	const patience = 200 * time.Millisecond
	o := l.node.client.Options()
	ctx, done := context.WithTimeout(ctx, l.dial)
	defer done()
	conn, err := o.Dialer(ctx, o.Network, o.Addr)
	if err != nil {
		return false
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return false
	}
	said := make([]byte, len("-")+len(errServerFull.Error()))
	_, err = io.ReadFull(conn, said)
	return err == nil && strings.TrimPrefix(string(said), "-") == errServerFull.Error()
}

// cause returns what is behind an error: that a server which hangs up is full.
func (w *worker) cause(ctx context.Context, err error) error {
	var reply redis.Error
	if w.link == nil || errors.As(err, &reply) || !hungUp(err) {
		return err
	}
	ctx, done := w.whileReading(ctx)
	defer done()
	if w.link.full(ctx) {
		return errServerFull
	}
	return err
}
