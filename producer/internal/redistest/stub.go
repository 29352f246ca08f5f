package redistest

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// Stub is a server that speaks just enough of the Redis protocol to answer
// commands as a test tells it to.
type Stub struct {
	// Addr is host:port.
	Addr string

	listener net.Listener
	answer   func(args []string) string
	serving  sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]struct{}
	seen  [][]string
}

// NewPipeStub is NewStub without a network, for a bubble of testing/synctest: clients
// connect with Dial.
func NewPipeStub(tb testing.TB, answer func(args []string) string) *Stub {
	tb.Helper()
	s := &Stub{Addr: "127.0.0.1:1", answer: answer, conns: make(map[net.Conn]struct{})}
	tb.Cleanup(s.close)
	return s
}

// Dial connects to a stub of NewPipeStub; it is a Dialer of redis.Options.
func (s *Stub) Dial(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	s.welcome(server, &outbox{Conn: server, replies: make(chan []byte, maxReplies)})
	return client, nil
}

// maxReplies is how many replies an outbox holds.
const maxReplies = 10_000

// outbox is the stub's end of a pipe. A pipe holds nothing by itself, and clients write
// all of a pipeline before they read.
type outbox struct {
	net.Conn
	replies chan []byte
}

func (o *outbox) Write(reply []byte) (int, error) {
	o.replies <- bytes.Clone(reply)
	return len(reply), nil
}

// Close has the replies delivered first.
func (o *outbox) Close() error {
	close(o.replies)
	return nil
}

func (o *outbox) deliver() {
	defer func() { _ = o.Conn.Close() }()
	for reply := range o.replies {
		// It fails where the client is gone.
		_, _ = o.Conn.Write(reply)
	}
}

// NewStub starts a stub that answers each command with what answer returns, in
// the form of the wire such as "+OK\r\n"; "" closes the connection. answer is
// called by several goroutines, and not for what clients send while they connect. The stub
// ends with the test.
func NewStub(tb testing.TB, answer func(args []string) string) *Stub {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // returns at once
	if err != nil {
		tb.Fatal(err)
	}
	s := &Stub{Addr: l.Addr().String(), listener: l, answer: answer, conns: make(map[net.Conn]struct{})}
	s.serving.Go(s.accept)
	tb.Cleanup(s.close)
	return s
}

// Seen returns the commands that answer was asked about, in the order in which they came.
func (s *Stub) Seen() [][]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([][]string(nil), s.seen...)
}

// Bulk returns the wire form of a string.
func Bulk(text string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(text), text) }

func (s *Stub) accept() {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.welcome(conn, conn)
	}
}

// welcome serves a connection, which close closes, over its end.
func (s *Stub) welcome(conn, end net.Conn) {
	s.mu.Lock()
	s.conns[conn] = struct{}{}
	s.mu.Unlock()
	s.serving.Go(func() { s.serve(end) })
	if box, ok := end.(*outbox); ok {
		s.serving.Go(box.deliver)
	}
}

func (s *Stub) close() {
	if s.listener != nil {
		_ = s.listener.Close()
	}
	s.mu.Lock()
	for c := range s.conns {
		_ = c.Close()
	}
	s.mu.Unlock()
	s.serving.Wait()
}

func (s *Stub) serve(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	r := bufio.NewReader(conn)
	for {
		args, err := readCommand(r)
		if err != nil {
			return
		}
		reply := "-ERR unknown command\r\n"
		switch strings.ToLower(args[0]) {
		case "hello", "client":
		default:
			s.mu.Lock()
			s.seen = append(s.seen, args)
			s.mu.Unlock()
			reply = s.answer(args)
		}
		if reply == "" {
			return
		}
		if _, err := io.WriteString(conn, reply); err != nil {
			return
		}
	}
}

// readCommand reads one command, an array of bulk strings.
func readCommand(r *bufio.Reader) ([]string, error) {
	n, err := readLength(r, '*')
	if err != nil {
		return nil, err
	}
	if n < 1 {
		return nil, fmt.Errorf("a command of %d arguments", n)
	}
	args := make([]string, n)
	for i := range args {
		size, err := readLength(r, '$')
		if err != nil {
			return nil, err
		}
		buf := make([]byte, size+2)
		if _, err := io.ReadFull(r, buf); err != nil {
			return nil, err
		}
		args[i] = string(buf[:size])
	}
	return args, nil
}

func readLength(r *bufio.Reader, mark byte) (int, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return 0, err
	}
	if line[0] != mark {
		return 0, fmt.Errorf("unexpected %q", line)
	}
	return strconv.Atoi(strings.TrimSpace(line[1:]))
}
