package faultkit

import (
	"bufio"
	"bytes"
	"context"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// maxTogether bounds what a proxy passes on in one piece.
const maxTogether = 1 << 20

// Loss says which replies a Proxy loses.
type Loss struct {
	// Command is the command whose replies count, such as "XADD". Replies that
	// say that there is nothing, and errors, do not count: they lose nothing.
	Command string
	// Every loses one of so many; 1 loses each.
	Every int
	// Times is how many are lost altogether.
	Times int
	// Silent leaves the connection open, so that the client waits in vain.
	// Otherwise it breaks, as when a server's machine dies.
	Silent bool
}

// Direction is a way through a Proxy.
type Direction int

// The two ways.
const (
	Requests Direction = iota
	Replies
)

// Proxy stands between clients and a node, and does to them what networks do.
// It understands the protocol, so it can lose exactly one reply.
type Proxy struct {
	// Addr is where clients connect.
	Addr string

	listener net.Listener
	pumps    sync.WaitGroup

	mu     sync.Mutex
	target string
	closed bool
	conns  map[net.Conn]struct{}
	loss   Loss
	// seen counts replies that Loss counts, lost those that were lost.
	seen, lost int
	delay      time.Duration
	// held is closed to let what a frozen direction holds go on.
	held [2]chan struct{}
}

// NewProxy starts a proxy in front of target that ends with the test. The target
// may be set later.
func NewProxy(tb testing.TB, target string) *Proxy {
	tb.Helper()
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	p := &Proxy{Addr: l.Addr().String(), target: target, listener: l, conns: map[net.Conn]struct{}{}}
	p.pumps.Go(p.accept)
	tb.Cleanup(p.close)
	return p
}

// SetTarget says where connections made from now on lead.
func (p *Proxy) SetTarget(addr string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = addr
}

// Lose begins to lose replies and forgets what was lost before.
func (p *Proxy) Lose(l Loss) {
	l.Every = max(1, l.Every)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.loss, p.seen, p.lost = l, 0, 0
}

// Lost returns how many replies were lost since Lose.
func (p *Proxy) Lost() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lost
}

// Delay holds every reply back for a time; 0 ends that.
func (p *Proxy) Delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// Freeze stops the traffic of one direction without breaking a connection, until
// Thaw.
func (p *Proxy) Freeze(d Direction) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held[d] == nil {
		p.held[d] = make(chan struct{})
	}
}

// Thaw lets the traffic of both directions go on.
func (p *Proxy) Thaw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for d, held := range p.held {
		if held != nil {
			close(held)
			p.held[d] = nil
		}
	}
}

// Cut breaks all connections there are. New ones are welcome.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
}

func (p *Proxy) close() {
	p.Thaw()
	p.mu.Lock()
	p.closed = true
	_ = p.listener.Close()
	p.mu.Unlock()
	p.Cut()
	p.pumps.Wait()
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		target := p.target
		p.mu.Unlock()
		server, err := new(net.Dialer).DialContext(context.Background(), "tcp", target)
		if err != nil {
			_ = client.Close()
			continue
		}
		if !p.track(client) || !p.track(server) {
			_ = client.Close()
			_ = server.Close()
			return
		}
		l := &link{p: p, client: client, server: server}
		p.pumps.Go(l.requests)
		p.pumps.Go(l.replies)
	}
}

func (p *Proxy) track(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.conns[c] = struct{}{}
	return true
}

// wait holds the traffic of a frozen direction, and delays replies.
func (p *Proxy) wait(d Direction) {
	p.mu.Lock()
	held, delay := p.held[d], p.delay
	p.mu.Unlock()
	if held != nil {
		<-held
	}
	if d == Replies && delay > 0 {
		time.Sleep(delay)
	}
}

// loses reports whether the reply to a command is lost now, and whether it is
// lost silently.
func (p *Proxy) loses(command string, reply []byte) (lost, silent bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lost >= p.loss.Times || !strings.EqualFold(command, p.loss.Command) || nothing(reply) || reply[0] == '-' {
		return false, false
	}
	if p.seen++; p.seen%p.loss.Every != 0 {
		return false, false
	}
	p.lost++
	return true, p.loss.Silent
}

// link is one connection through the proxy.
type link struct {
	p              *Proxy
	client, server net.Conn

	mu sync.Mutex
	// asked are the commands that await their replies, in order.
	asked []string
}

func (l *link) end() {
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	for _, c := range []net.Conn{l.client, l.server} {
		_ = c.Close()
		delete(l.p.conns, c)
	}
}

func (l *link) requests() {
	defer l.end()
	r, raw := bufio.NewReaderSize(l.client, 64<<10), new(bytes.Buffer)
	for {
		raw.Reset()
		// What was sent together stays together: the server must see a pipeline as one.
		for raw.Len() == 0 || (r.Buffered() > 0 && raw.Len() < maxTogether) {
			begin := raw.Len()
			if _, err := readValue(r, raw); err != nil {
				return
			}
			l.mu.Lock()
			l.asked = append(l.asked, commandName(raw.Bytes()[begin:]))
			l.mu.Unlock()
		}
		l.p.wait(Requests)
		if _, err := l.server.Write(raw.Bytes()); err != nil {
			return
		}
	}
}

func (l *link) replies() {
	defer l.end()
	r, raw := bufio.NewReaderSize(l.server, 64<<10), new(bytes.Buffer)
	silent := false
	for {
		raw.Reset()
		kind, err := readValue(r, raw)
		if err != nil {
			return
		}
		if kind != '>' { // a push answers nothing
			lost, hush := l.p.loses(l.answered(), raw.Bytes())
			if lost && !hush {
				return
			}
			// Once silent, always: the client would take the next reply for this one.
			silent = silent || hush
		}
		l.p.wait(Replies)
		if silent {
			continue
		}
		if _, err := l.client.Write(raw.Bytes()); err != nil {
			return
		}
	}
}

// answered takes the command that the next reply belongs to.
func (l *link) answered() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.asked) == 0 {
		return ""
	}
	command := l.asked[0]
	l.asked = l.asked[1:]
	return command
}
