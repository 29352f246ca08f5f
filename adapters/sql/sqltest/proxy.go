package sqltest

import (
	"bytes"
	"context"
	"io"
	"net"
	"sync"
	"testing"
)

// Proxy stands between clients and a server and does to them what networks do.
type Proxy struct {
	// Addr is where clients connect.
	Addr string

	target   string
	listener net.Listener
	pumps    sync.WaitGroup

	mu     sync.Mutex
	closed bool
	// refusing breaks new connections off; hushed lets nothing through until it is closed.
	refusing bool
	hushed   chan struct{}
	conns    map[net.Conn]struct{}
	// lose is what a request must hold for its answer to be lost, times how often.
	lose  []byte
	times int
	lost  int
}

// NewProxy starts a proxy in front of an address that ends with the test.
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

// Lose passes on requests that hold a text, and breaks the connection instead of
// passing on the answer, so many times.
func (p *Proxy) Lose(text string, times int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lose, p.times, p.lost = []byte(text), times, 0
}

// Lost is how many answers were lost since Lose.
func (p *Proxy) Lost() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lost
}

// Bar cuts clients off: hush lets connections be and nothing arrive, otherwise they
// break and new ones are refused.
func (p *Proxy) Bar(hush bool) {
	p.mu.Lock()
	if hush && p.hushed == nil {
		p.hushed = make(chan struct{})
	}
	p.refusing = !hush
	p.mu.Unlock()
	if !hush {
		p.Cut()
	}
}

// Open ends what Bar began.
func (p *Proxy) Open() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refusing = false
	if p.hushed != nil {
		close(p.hushed)
		p.hushed = nil
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
	p.Open()
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
		server, err := new(net.Dialer).DialContext(context.Background(), "tcp", p.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		if !p.track(client, server) {
			_ = client.Close()
			_ = server.Close()
			continue
		}
		doomed := make(chan struct{})
		end := sync.OnceFunc(func() { p.end(client, server) })
		p.pumps.Go(func() { defer end(); p.requests(server, client, doomed) })
		p.pumps.Go(func() { defer end(); p.answers(client, server, doomed) })
	}
}

func (p *Proxy) track(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.refusing {
		return false
	}
	for _, c := range conns {
		p.conns[c] = struct{}{}
	}
	return true
}

func (p *Proxy) end(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		_ = c.Close()
		delete(p.conns, c)
	}
}

// wait holds what is hushed.
func (p *Proxy) wait() {
	p.mu.Lock()
	hushed := p.hushed
	p.mu.Unlock()
	if hushed != nil {
		<-hushed
	}
}

// loses reports whether the answer to a request is lost.
func (p *Proxy) loses(request []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.times == 0 || !bytes.Contains(request, p.lose) {
		return false
	}
	p.times--
	p.lost++
	return true
}

// requests passes on what clients send; doomed is closed before that whose answer is to
// be lost.
func (p *Proxy) requests(to io.Writer, from io.Reader, doomed chan struct{}) {
	buffer := make([]byte, 64<<10)
	isDoomed := false
	for {
		n, err := from.Read(buffer)
		p.wait()
		if n > 0 {
			if !isDoomed && p.loses(buffer[:n]) {
				isDoomed = true
				close(doomed)
			}
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (p *Proxy) answers(to io.Writer, from io.Reader, doomed chan struct{}) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		p.wait()
		select {
		case <-doomed:
			return // the server has answered: it has done what it was asked
		default:
		}
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
