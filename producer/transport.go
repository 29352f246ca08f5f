package producer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// Transport asks a coordinator for the routing of the producer's stream. One
// call is made at a time. The context carries the deadline of the request; an
// implementation must return when it ends.
//
// An error that is a *protocol.Error and not Retryable is a refusal, which is
// reported to callers at once; any other error means that the coordinator cannot
// be reached.
type Transport interface {
	Routing(ctx context.Context) (*protocol.Routing, error)
}

const (
	defaultBasePath = "/coord/v1"
	// maxRoutingBytes bounds the body of a routing: MaxShards shards with the
	// longest keys.
	maxRoutingBytes = 32 << 20
	maxErrorBytes   = 64 << 10
	maxTagBytes     = 1 << 10
)

// httpTransport is the Transport of real coordinators.
type httpTransport struct {
	client      *http.Client
	ownsClient  bool
	urls        []string
	credentials Credentials
	// last is the answer that came with an entity tag last. The tag is a digest of
	// the answer and the same on every coordinator.
	last atomic.Pointer[taggedRouting]
	// current is the index of the coordinator that answered last.
	current atomic.Int32
}

// taggedRouting is an answer that a coordinator need not send again.
type taggedRouting struct {
	tag     string
	routing *protocol.Routing
}

func newHTTPTransport(cfg *Config) (*httpTransport, error) {
	t := &httpTransport{client: cfg.HTTPClient, credentials: cfg.Credentials}
	for i, base := range cfg.Coordinators {
		u, err := routingURL(base, cfg.Stream, cfg.Group)
		if err != nil {
			return nil, fmt.Errorf("producer config: Coordinators[%d]: %w", i, err)
		}
		t.urls = append(t.urls, u)
	}
	if t.client == nil {
		t.client = &http.Client{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: 1}}
		t.ownsClient = true
	}
	return t, nil
}

func routingURL(base, stream, group string) (string, error) {
	u, err := coordinatorURL(base)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s/streams/%s/groups/%s/producer-routing", u, url.PathEscape(stream), url.PathEscape(group)), nil
}

// coordinatorURL checks the URL of a coordinator and returns it with its base
// path and without a slash at the end.
func coordinatorURL(base string) (string, error) {
	u, err := url.Parse(base)
	switch {
	case err != nil:
		// The error of url.Parse quotes the URL, which may hold a password.
		return "", errors.New("is not a URL")
	case (u.Scheme != "http" && u.Scheme != "https") || u.Host == "":
		return "", errors.New("must be of the form http://host:port or https://host:port")
	case u.User != nil:
		return "", errors.New("must not contain a user: use Credentials")
	case u.RawQuery != "" || u.Fragment != "":
		return "", errors.New("must not have a query or a fragment")
	}
	path := strings.TrimRight(u.EscapedPath(), "/")
	if path == "" {
		path = defaultBasePath
	}
	return u.Scheme + "://" + u.Host + path, nil
}

// Routing asks the coordinator that answered last, and the others in turn while
// one cannot be reached.
func (t *httpTransport) Routing(ctx context.Context) (*protocol.Routing, error) {
	first := int(t.current.Load())
	var failures []error
	for i := range t.urls {
		at := (first + i) % len(t.urls)
		routing, err := t.ask(ctx, t.urls[at])
		if err == nil || isRefusal(err) {
			t.current.Store(int32(at))
			return routing, err
		}
		failures = append(failures, err)
		if ctx.Err() != nil {
			break
		}
	}
	// Begin with another one next time: this one may swallow requests.
	t.current.Store(int32((first + 1) % len(t.urls)))
	return nil, errors.Join(failures...)
}

func (t *httpTransport) ask(ctx context.Context, target string) (*protocol.Routing, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, http.NoBody)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	last := t.last.Load()
	if last != nil {
		req.Header.Set("If-None-Match", last.tag)
	}
	resp, err := sendAuthorized(t.client, t.credentials, req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	if last != nil && resp.StatusCode == http.StatusNotModified {
		return last.routing, nil
	}
	if resp.StatusCode != http.StatusOK {
		return nil, refusal(target, resp)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxRoutingBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read the routing from %s: %w", target, err)
	}
	if len(body) > maxRoutingBytes {
		return nil, fmt.Errorf("the routing from %s is larger than %d bytes", target, maxRoutingBytes)
	}
	routing := new(protocol.Routing)
	if err := json.Unmarshal(body, routing); err != nil {
		return nil, fmt.Errorf("decode the routing from %s: %w", target, err)
	}
	if tag := resp.Header.Get("ETag"); tag != "" && len(tag) <= maxTagBytes {
		t.last.Store(&taggedRouting{tag, routing})
	}
	return routing, nil
}

// refusal makes an answer other than 200 into an error: a *protocol.Error where
// the coordinator said why, or where the status alone is clear.
func refusal(target string, resp *http.Response) error {
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBytes))
	var said protocol.ErrorBody
	passes := resp.StatusCode >= 500 || resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode == http.StatusRequestTimeout
	switch err := json.Unmarshal(body, &said); {
	case err == nil && said.ErrorCode != "":
		return fmt.Errorf("%s: %w", target, &protocol.Error{Code: said.ErrorCode, Message: said.Message, Retryable: passes})
	case resp.StatusCode == http.StatusUnauthorized:
		return fmt.Errorf("%s: %w", target, protocol.ErrUnauthorized)
	case resp.StatusCode == http.StatusForbidden:
		return fmt.Errorf("%s: %w", target, protocol.ErrForbidden)
	case resp.StatusCode == http.StatusBadGateway, resp.StatusCode == http.StatusServiceUnavailable, resp.StatusCode == http.StatusGatewayTimeout:
		return fmt.Errorf("%s answered %s: what stands in front of the coordinators reached none of them", target, resp.Status)
	case resp.StatusCode >= 400 && !passes:
		return fmt.Errorf("%s: %w", target, &protocol.Error{
			Code:    fmt.Sprintf("HTTP_%d", resp.StatusCode),
			Message: "answered " + resp.Status + ": check that this is the URL of a coordinator",
		})
	}
	return fmt.Errorf("%s answered %s: check that this is the URL of a coordinator", target, resp.Status)
}

// isRefusal reports an answer that will be the same until somebody changes
// something.
func isRefusal(err error) bool {
	var e *protocol.Error
	return errors.As(err, &e) && !e.Retryable
}

func (t *httpTransport) close() {
	if t.ownsClient {
		t.client.CloseIdleConnections()
	}
}
