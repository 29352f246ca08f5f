package redistest

import (
	"bytes"
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// Proxy passes bytes between clients and a server, and can lose an answer.
type Proxy struct {
	// Addr is host:port on the loopback interface.
	Addr string
	// Lost counts the answers that were lost.
	Lost atomic.Int32

	target   string
	listener net.Listener
	lose     atomic.Bool
	word     atomic.Pointer[string]
	holds    atomic.Pointer[holding]
	tb       testing.TB
	users    sync.WaitGroup

	mu     sync.Mutex
	conns  map[net.Conn]struct{}
	closed bool
}

// StartProxy starts a proxy in front of target and stops it when the test ends.
func StartProxy(tb testing.TB, target string) *Proxy {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // returns at once
	if err != nil {
		tb.Fatal(err)
	}
	p := &Proxy{Addr: l.Addr().String(), target: target, listener: l, tb: tb, conns: make(map[net.Conn]struct{})}
	p.users.Go(p.accept)
	tb.Cleanup(p.close)
	return p
}

// URL is the proxy's address as the adapter takes it.
func (p *Proxy) URL() string { return "redis://" + p.Addr }

// LoseNext makes the proxy cut the connection when the server next answers
// something: the command was carried out, and its sender does not learn it.
func (p *Proxy) LoseNext() { p.lose.Store(true) }

// LoseAnswerTo does so when the server next answers a request that has this word in
// it, of whatever connection; in those of other requests nothing is lost.
func (p *Proxy) LoseAnswerTo(word string) { p.word.Store(&word) }

// holding is a request that is kept back.
type holding struct {
	word             string
	reached, release chan struct{}
}

// Hold keeps the next request back that has this word in it. reached is closed when
// it has come; release sends it on, at the latest when the test ends.
func (p *Proxy) Hold(word string) (reached <-chan struct{}, release func()) {
	h := &holding{word: word, reached: make(chan struct{}), release: make(chan struct{})}
	p.holds.Store(h)
	release = sync.OnceFunc(func() { close(h.release) })
	p.tb.Cleanup(release)
	return h.reached, release
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target) //nolint:noctx // of the loopback interface
		if err != nil {
			_ = client.Close()
			continue
		}
		if !p.keep(client, server) {
			return
		}
		var lose atomic.Bool // on this connection
		p.users.Go(func() { p.passRequests(client, server, &lose) })
		p.users.Go(func() { p.passAnswers(server, client, &lose) })
	}
}

// passRequests copies from client to server until either ends, has the answer lost
// to what LoseAnswerTo says, and keeps back what Hold says.
func (p *Proxy) passRequests(client, server net.Conn, lose *atomic.Bool) {
	p.copy(client, server, func(request []byte) bool {
		word := p.word.Load()
		if word != nil && bytes.Contains(request, []byte(*word)) && p.word.CompareAndSwap(word, nil) {
			lose.Store(true)
		}
		if h := p.holds.Load(); h != nil && bytes.Contains(request, []byte(h.word)) && p.holds.CompareAndSwap(h, nil) {
			close(h.reached)
			<-h.release
		}
		return true
	})
}

// passAnswers copies from server to client until either ends. What is to be lost is
// thrown away once it was read, and both sides are cut.
func (p *Proxy) passAnswers(server, client net.Conn, lose *atomic.Bool) {
	p.copy(server, client, func([]byte) bool {
		if lose.CompareAndSwap(true, false) || p.lose.CompareAndSwap(true, false) {
			p.Lost.Add(1)
			return false
		}
		return true
	})
}

func (p *Proxy) copy(from, to net.Conn, goOn func([]byte) bool) {
	defer p.cut(from, to)
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if !goOn(buf[:n]) {
				return
			}
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// keep remembers connections for close, and closes them when it is too late.
func (p *Proxy) keep(conns ...net.Conn) bool {
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

func (p *Proxy) cut(conns ...net.Conn) {
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
	for c := range p.conns {
		_ = c.Close()
	}
	p.mu.Unlock()
	p.users.Wait()
}
