package faultkit

import (
	"bytes"
	"context"
	"net"
	"sync"
	"testing"
	"time"
)

// gateHead is how much of a connection is kept to know it by. A client says who it
// is with its first command.
const gateHead = 512

// gateDial bounds how long a gate takes to reach its node.
const gateDial = 5 * time.Second

// Gate stands in front of a node and can bar the clients of one Redis user, so that
// one of several coordinators is cut off while the others are not. It passes
// everything else on as it is, replication too.
type Gate struct {
	// Addr is where clients connect.
	Addr string

	listener net.Listener
	pumps    sync.WaitGroup

	mu       sync.Mutex
	target   string
	closed   bool
	barred   map[string]*bar
	passages map[*passage]struct{}
}

// bar is what holds a user back. A silent one lets nothing pass and breaks nothing,
// until opened is closed.
type bar struct {
	silent bool
	opened chan struct{}
}

// passage is one connection through a gate.
type passage struct {
	gate           *Gate
	client, server net.Conn
	// head is what the client said first.
	head []byte
}

// NewGate starts a gate in front of target that ends with the test. The target may
// be set later.
func NewGate(tb testing.TB, target string) *Gate {
	tb.Helper()
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	g := &Gate{Addr: l.Addr().String(), target: target, listener: l, barred: map[string]*bar{}, passages: map[*passage]struct{}{}}
	g.pumps.Go(g.accept)
	tb.Cleanup(g.close)
	return g
}

// SetTarget says where connections made from now on lead.
func (g *Gate) SetTarget(addr string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.target = addr
}

// Bar cuts a user off: the connections there are break, and new ones do. A silent
// bar breaks nothing: what is sent does not arrive, as behind a switch that died.
func (g *Gate) Bar(user string, silent bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.barred[user] != nil {
		return
	}
	g.barred[user] = &bar{silent: silent, opened: make(chan struct{})}
	if silent {
		return
	}
	for p := range g.passages {
		if p.is(user) {
			p.end()
		}
	}
}

// Open lets a user through again, and what a silent bar has held back.
func (g *Gate) Open(user string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if b := g.barred[user]; b != nil {
		close(b.opened)
		delete(g.barred, user)
	}
}

func (g *Gate) close() {
	g.mu.Lock()
	g.closed = true
	_ = g.listener.Close()
	for user, b := range g.barred {
		close(b.opened)
		delete(g.barred, user)
	}
	for p := range g.passages {
		p.end()
	}
	g.mu.Unlock()
	g.pumps.Wait()
}

func (g *Gate) accept() {
	for {
		client, err := g.listener.Accept()
		if err != nil {
			return
		}
		p := &passage{gate: g, client: client}
		g.mu.Lock()
		if g.closed {
			g.mu.Unlock()
			_ = client.Close()
			return
		}
		g.passages[p] = struct{}{}
		g.mu.Unlock()
		g.pumps.Go(p.run)
	}
}

// run reads who comes, and passes on what is said from then on.
func (p *passage) run() {
	defer p.forget()
	first := make([]byte, 32<<10)
	n, err := p.client.Read(first)
	if err != nil {
		return
	}
	server, ok := p.enter(first[:n])
	if !ok {
		return
	}
	var back sync.WaitGroup
	back.Go(func() {
		defer p.close()
		p.pump(p.client, server, nil)
	})
	p.pump(server, p.client, first[:n])
	p.close()
	back.Wait()
}

// enter connects to the node, unless who comes is barred.
func (p *passage) enter(first []byte) (net.Conn, bool) {
	g := p.gate
	g.mu.Lock()
	p.head = bytes.Clone(first[:min(len(first), gateHead)])
	target, b := g.target, p.bar()
	g.mu.Unlock()
	if b != nil && !b.silent {
		return nil, false
	}
	dialer := net.Dialer{Timeout: gateDial}
	server, err := dialer.DialContext(context.Background(), "tcp", target)
	if err != nil {
		return nil, false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if b := p.bar(); g.closed || (b != nil && !b.silent) {
		_ = server.Close()
		return nil, false
	}
	p.server = server
	return server, true
}

// pump passes on what comes from one side, beginning with what was read already.
func (p *passage) pump(to, from net.Conn, first []byte) {
	room := make([]byte, 32<<10)
	piece := first
	for {
		if len(piece) > 0 {
			p.hold()
			if _, err := to.Write(piece); err != nil {
				return
			}
		}
		n, err := from.Read(room)
		if err != nil {
			return
		}
		piece = room[:n]
	}
}

// hold waits while a silent bar is down.
func (p *passage) hold() {
	p.gate.mu.Lock()
	b := p.bar()
	p.gate.mu.Unlock()
	if b != nil && b.silent {
		<-b.opened
	}
}

// bar returns the bar that holds the client back, nil if there is none. The lock of
// the gate is held.
func (p *passage) bar() *bar {
	for user, b := range p.gate.barred {
		if p.is(user) {
			return b
		}
	}
	return nil
}

// is reports whether the client has given itself out as a user: the name is a word
// of its own in the protocol of Redis.
func (p *passage) is(user string) bool { return bytes.Contains(p.head, []byte("\r\n"+user+"\r\n")) }

// end breaks the connection. The lock of the gate is held.
func (p *passage) end() {
	_ = p.client.Close()
	if p.server != nil {
		_ = p.server.Close()
	}
}

func (p *passage) close() {
	p.gate.mu.Lock()
	defer p.gate.mu.Unlock()
	p.end()
}

func (p *passage) forget() {
	p.gate.mu.Lock()
	defer p.gate.mu.Unlock()
	p.end()
	delete(p.gate.passages, p)
}
