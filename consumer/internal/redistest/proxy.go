package redistest

import (
	"bytes"
	"context"
	"net"
	"sync"
	"testing"
)

// Proxy stands between clients and a server.
type Proxy struct {
	Addr string

	target   string
	listener net.Listener
	pumps    sync.WaitGroup

	mu     sync.Mutex
	closed bool
	conns  map[net.Conn]struct{}
	// drop is how many replies to requests that contain want are swallowed; the
	// connection breaks then.
	drop int
	want []byte
	// frozen is closed to let the frozen connections go on.
	frozen chan struct{}
}

// NewProxy starts a proxy in front of target that ends with the test.
func NewProxy(tb testing.TB, target string) *Proxy {
	tb.Helper()
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	p := &Proxy{Addr: l.Addr().String(), target: target, listener: l, conns: map[net.Conn]struct{}{}}
	p.pumps.Go(p.accept)
	tb.Cleanup(p.close)
	return p
}

func (p *Proxy) close() {
	p.Thaw()
	p.mu.Lock()
	p.closed = true
	_ = p.listener.Close()
	for c := range p.conns {
		_ = c.Close()
	}
	p.mu.Unlock()
	p.pumps.Wait()
}

// DropReplies swallows the replies to the next n requests that contain command,
// after the server has carried them out, and breaks their connections.
func (p *Proxy) DropReplies(n int, command string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop, p.want = n, []byte(command)
}

// Dropped reports whether all replies that were to be dropped have been.
func (p *Proxy) Dropped() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.drop == 0
}

// Freeze stops all traffic without breaking a connection, until Thaw.
func (p *Proxy) Freeze() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.frozen == nil {
		p.frozen = make(chan struct{})
	}
}

// Thaw lets the traffic go on.
func (p *Proxy) Thaw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.frozen != nil {
		close(p.frozen)
		p.frozen = nil
	}
}

func (p *Proxy) track(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		_ = c.Close()
		return false
	}
	p.conns[c] = struct{}{}
	return true
}

func (p *Proxy) forget(c net.Conn) {
	_ = c.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", p.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		if !p.track(client) || !p.track(server) {
			_ = client.Close()
			_ = server.Close()
			return
		}
		link := &proxied{p: p, client: client, server: server}
		p.pumps.Go(func() { link.pump(client, server, link.request) })
		p.pumps.Go(func() { link.pump(server, client, link.reply) })
	}
}

// proxied is one connection.
type proxied struct {
	p              *Proxy
	client, server net.Conn
	mu             sync.Mutex
	doomed         bool
}

// pump copies one way until either side ends. see may refuse to pass data on.
func (l *proxied) pump(from, to net.Conn, see func([]byte) bool) {
	defer l.p.forget(from)
	defer l.p.forget(to)
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		l.p.mu.Lock()
		frozen := l.p.frozen
		l.p.mu.Unlock()
		if frozen != nil {
			<-frozen
		}
		if !see(buf[:n]) {
			return
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

func (l *proxied) request(data []byte) bool {
	l.p.mu.Lock()
	hit := l.p.drop > 0 && bytes.Contains(data, l.p.want)
	l.p.mu.Unlock()
	if hit {
		l.mu.Lock()
		l.doomed = true
		l.mu.Unlock()
	}
	return true
}

func (l *proxied) reply(data []byte) bool {
	l.mu.Lock()
	doomed := l.doomed
	l.doomed = false
	l.mu.Unlock()
	if !doomed {
		return true
	}
	// An empty answer (nil) delivers nothing: wait for one that does.
	if bytes.HasPrefix(data, []byte("_\r\n")) || bytes.HasPrefix(data, []byte("*-1\r\n")) || bytes.HasPrefix(data, []byte("$-1\r\n")) {
		return true
	}
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	if l.p.drop == 0 {
		return true
	}
	l.p.drop--
	return false
}
