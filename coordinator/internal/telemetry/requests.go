package telemetry

import (
	"net/http"
	"sync"
	"time"
)

// requests are the requests about one group, or about none.
type requests struct {
	mu    sync.RWMutex
	kinds map[requestKind]*latency
}

// requestKind is what requests are told apart by. There are as many as routes times
// statuses that they have: both are the program's, and none is the caller's.
type requestKind struct {
	method, route string
	status        int
}

// maxRequestKinds bounds them all the same.
const maxRequestKinds = 2048

func (r *requests) observe(now time.Duration, k requestKind, took time.Duration) {
	r.mu.RLock()
	l := r.kinds[k]
	r.mu.RUnlock()
	if l == nil {
		if l = r.add(k); l == nil {
			return
		}
	}
	l.observe(now, took)
}

// add returns nil where there are too many.
func (r *requests) add(k requestKind) *latency {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.kinds[k]
	if l == nil && len(r.kinds) < maxRequestKinds {
		if r.kinds == nil {
			r.kinds = map[requestKind]*latency{}
		}
		l = new(latency)
		r.kinds[k] = l
	}
	return l
}

// each calls f for each kind.
func (r *requests) each(f func(requestKind, *latency)) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for k, l := range r.kinds {
		f(k, l)
	}
}

// methodOf keeps a caller from making series with methods of his own.
func methodOf(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return method
	}
	return "OTHER"
}

func outcomeOf(status int) string {
	switch {
	case status < 400:
		return "SUCCESS"
	case status < 500:
		return "CLIENT_ERROR"
	}
	return "SERVER_ERROR"
}
