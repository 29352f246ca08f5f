package redistest

import (
	"bytes"
	"net"
	"sync"
	"testing"
)

// Proxy stands between a client and a server and can lose replies: the server
// executes what it was sent, and the client sees its connection break.
type Proxy struct {
	// Addr is where clients connect to.
	Addr string

	target   string
	listener net.Listener
	pumps    sync.WaitGroup

	mu     sync.Mutex
	conns  map[net.Conn]struct{}
	closed bool
	// armed is the trap for the next request that contains match.
	armed bool
	every int // with 0 it is for one request only
	count int
	match []byte
	pass  int
	// Hits counts the traps that went off.
	hits int
	// gate is there while requests that contain match of Hold wait for it to close;
	// held is how many do.
	gate  chan struct{}
	holds []byte
	held  int
}

// NewProxy starts a proxy to the server at target; it ends with the test.
func NewProxy(tb testing.TB, target string) *Proxy {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // returns at once
	if err != nil {
		tb.Fatal(err)
	}
	p := &Proxy{Addr: l.Addr().String(), target: target, listener: l, conns: make(map[net.Conn]struct{})}
	p.pumps.Go(p.accept)
	tb.Cleanup(p.close)
	return p
}

// LoseReply arms a trap: of the next request that contains match, the first pass
// reply lines are let through, the rest is swallowed and the connection closed.
// A reply to XADD has two lines.
func (p *Proxy) LoseReply(match string, pass int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.armed, p.match, p.pass, p.every = true, []byte(match), pass, 0
}

// LoseEvery does what LoseReply does to every nth request, until Relent is called.
func (p *Proxy) LoseEvery(match string, n, pass int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.armed, p.match, p.pass, p.every = true, []byte(match), pass, n
}

// Hold keeps requests that contain match from the server until release is called,
// or the test ends.
func (p *Proxy) Hold(match string) (release func()) {
	gate := make(chan struct{})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gate, p.holds, p.held = gate, []byte(match), 0
	return sync.OnceFunc(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.gate == gate {
			p.gate = nil
			close(gate)
		}
	})
}

// Held returns how many requests are kept from the server.
func (p *Proxy) Held() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.held
}

// wait lets a request wait where it is to be held.
func (p *Proxy) wait(request []byte) {
	p.mu.Lock()
	gate := p.gate
	if gate == nil || !bytes.Contains(request, p.holds) {
		p.mu.Unlock()
		return
	}
	p.held++
	p.mu.Unlock()
	<-gate
}

// Relent disarms the trap.
func (p *Proxy) Relent() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.armed = false
}

// Hits returns how many traps went off.
func (p *Proxy) Hits() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.hits
}

// spring reports whether a request sets the trap off, and how many reply lines
// are to pass.
func (p *Proxy) spring(request []byte) (sprung bool, pass int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.armed || !bytes.Contains(request, p.match) {
		return false, 0
	}
	if p.count++; p.every > 0 && p.count%p.every != 0 {
		return false, 0
	}
	p.armed = p.every > 0
	p.hits++
	return true, p.pass
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.DialTimeout("tcp", p.target, Patience) //nolint:noctx // bounded
		if err != nil {
			_ = client.Close()
			continue
		}
		if !p.register(client, server) {
			return
		}
		l := &link{proxy: p, client: client, server: server, pass: -1}
		p.pumps.Go(l.requests)
		p.pumps.Go(l.replies)
	}
}

func (p *Proxy) register(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		if p.closed {
			_ = c.Close()
			continue
		}
		p.conns[c] = struct{}{}
	}
	return !p.closed
}

func (p *Proxy) drop(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		_ = c.Close()
		delete(p.conns, c)
	}
}

func (p *Proxy) close() {
	_ = p.listener.Close()
	p.mu.Lock()
	p.closed = true
	if p.gate != nil {
		close(p.gate)
		p.gate = nil
	}
	for c := range p.conns {
		_ = c.Close()
	}
	p.mu.Unlock()
	p.pumps.Wait()
}

// link is one connection through the proxy.
type link struct {
	proxy          *Proxy
	client, server net.Conn
	mu             sync.Mutex
	pass           int // reply lines still to pass once the trap went off, -1 before
}

func (l *link) requests() {
	defer l.proxy.drop(l.client, l.server)
	buf := make([]byte, 1<<20)
	for {
		n, err := l.client.Read(buf)
		if err != nil {
			return
		}
		if sprung, pass := l.proxy.spring(buf[:n]); sprung {
			l.mu.Lock()
			l.pass = pass
			l.mu.Unlock()
		}
		l.proxy.wait(buf[:n])
		if _, err := l.server.Write(buf[:n]); err != nil {
			return
		}
	}
}

func (l *link) replies() {
	defer l.proxy.drop(l.client, l.server)
	buf := make([]byte, 64<<10)
	for {
		n, err := l.server.Read(buf)
		if err != nil {
			return
		}
		out, over := l.filter(buf[:n])
		if _, err := l.client.Write(out); err != nil || over {
			return
		}
	}
}

// filter returns what may pass, and whether the link ends after it. It ends only
// after the server has answered: then it has executed what it was sent.
func (l *link) filter(reply []byte) (out []byte, over bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pass < 0 {
		return reply, false
	}
	for i, b := range reply {
		if l.pass == 0 {
			return reply[:i], true
		}
		if b == '\n' {
			l.pass--
		}
	}
	return reply, false
}
