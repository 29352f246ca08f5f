package consumer

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
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
// reports the broken connection only. So one more is opened, and listened to. A
// server that says nothing by itself is asked something, so that one that is well
// costs no time.
func (l *link) full(ctx context.Context) bool {
	const (
		// unasked is how long a full server is given to speak first.
		unasked  = 10 * time.Millisecond
		patience = 200 * time.Millisecond
	)
	o := l.node.client.Options()
	ctx, done := context.WithTimeout(ctx, l.dial)
	defer done()
	conn, err := o.Dialer(ctx, o.Network, o.Addr)
	if err != nil {
		return false
	}
	defer func() { _ = conn.Close() }()
	want := "-" + errServerFull.Error()
	said := make([]byte, len(want))
	n, err := hear(conn, said, unasked)
	if n == 0 && errors.Is(err, os.ErrDeadlineExceeded) {
		if _, err := conn.Write([]byte("PING\r\n")); err != nil {
			return false
		}
		n, _ = hear(conn, said, patience)
	}
	return string(said[:n]) == want
}

// hear reads until said is full, the line ends, or the time is up.
func hear(conn net.Conn, said []byte, within time.Duration) (n int, err error) {
	if err := conn.SetReadDeadline(time.Now().Add(within)); err != nil {
		return 0, err
	}
	for n < len(said) && err == nil && !bytes.HasSuffix(said[:n], []byte("\n")) {
		var more int
		more, err = conn.Read(said[n:])
		n += more
	}
	return n, err
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
