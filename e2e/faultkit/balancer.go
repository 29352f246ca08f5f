package faultkit

import (
	"bytes"
	"context"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const (
	// balancedBody bounds a request that is passed on.
	balancedBody = 1 << 20
	// checkEvery is how often a balancer asks those behind it, and how long an answer
	// may take.
	checkEvery = 200 * time.Millisecond
)

// Balancer is a load balancer in front of HTTP servers: it passes each request to the
// next one, and to the one after it when that one takes no connection.
type Balancer struct {
	// URL reaches it.
	URL string

	addrs  []string
	next   atomic.Int64
	served []atomic.Int64
	// sick are those that do not answer as they should.
	sick []atomic.Bool
}

// Balance puts a balancer before servers, until the test ends. With a check, a path
// such as /health/ready, it leaves out whoever does not answer that with 200.
func Balance(tb testing.TB, check string, addrs ...string) *Balancer {
	tb.Helper()
	b := &Balancer{addrs: addrs, served: make([]atomic.Int64, len(addrs)), sick: make([]atomic.Bool, len(addrs))}
	server := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.Out.URL.Scheme, r.Out.URL.Host = "http", "servers" },
		Transport: b,
		ErrorLog:  log.New(io.Discard, "", 0),
	})
	b.URL = server.URL
	tb.Cleanup(server.Close)
	if check != "" {
		ctx, stop := context.WithCancel(context.WithoutCancel(tb.Context()))
		var checks sync.WaitGroup
		for i := range addrs {
			checks.Go(func() { b.check(ctx, i, "http://"+addrs[i]+check) })
		}
		tb.Cleanup(func() {
			stop()
			checks.Wait()
		})
	}
	return b
}

// Served returns how many requests a server has answered.
func (b *Balancer) Served(server int) int64 { return b.served[server].Load() }

// RoundTrip is the transport of the reverse proxy.
func (b *Balancer) RoundTrip(request *http.Request) (*http.Response, error) {
	var body []byte
	if request.Body != nil {
		var err error
		if body, err = io.ReadAll(io.LimitReader(request.Body, balancedBody)); err != nil {
			return nil, err
		}
	}
	var err error
	for _, at := range b.order() {
		attempt := request.Clone(request.Context())
		attempt.URL.Host, attempt.Body = b.addrs[at], io.NopCloser(bytes.NewReader(body))
		var response *http.Response
		if response, err = http.DefaultTransport.RoundTrip(attempt); err == nil {
			b.served[at].Add(1)
			return response, nil
		}
		if !strings.Contains(err.Error(), "connection refused") {
			break // it may have been applied: the client is told
		}
	}
	return nil, err
}

// order returns the servers as they are to be tried: healthy ones first.
func (b *Balancer) order() []int {
	first := int(b.next.Add(1))
	var well, sick []int
	for i := range b.addrs {
		at := (first + i) % len(b.addrs)
		if b.sick[at].Load() {
			sick = append(sick, at)
		} else {
			well = append(well, at)
		}
	}
	return append(well, sick...)
}

// check asks a server for its health until ctx ends.
func (b *Balancer) check(ctx context.Context, server int, url string) {
	tick := time.NewTicker(checkEvery)
	defer tick.Stop()
	for {
		b.sick[server].Store(!answers(ctx, url))
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func answers(ctx context.Context, url string) bool {
	ctx, done := context.WithTimeout(ctx, checkEvery)
	defer done()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	_ = response.Body.Close()
	return response.StatusCode == http.StatusOK
}
