package reshard

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"testing"
)

// front stands between a producer and the coordinators, and can be cut: the producer
// then goes on with the route that it knows, as long as it may.
type front struct {
	url string
	cut atomic.Bool
}

func newFront(tb testing.TB, f fleet) *front {
	tb.Helper()
	front := new(front)
	var turn atomic.Int64
	targets := make([]*url.URL, len(f))
	for i, c := range f {
		target, err := url.Parse(c.URL)
		if err != nil {
			tb.Fatal(err)
		}
		targets[i] = target
	}
	proxy := &httputil.ReverseProxy{
		Rewrite:  func(r *httputil.ProxyRequest) { r.SetURL(targets[int(turn.Add(1))%len(targets)]) },
		ErrorLog: log.New(io.Discard, "", 0),
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if front.cut.Load() {
			panic(http.ErrAbortHandler) // the connection breaks
		}
		proxy.ServeHTTP(w, r)
	}))
	tb.Cleanup(server.Close)
	front.url = server.URL
	return front
}
