package consumer

import (
	"bytes"
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

// Transport carries heartbeats to a coordinator. One is under way at a time,
// save for one that has been given up. The context carries the deadline; an
// implementation must return when it ends, and must not send a heartbeat twice.
// An error means that it is not known whether the heartbeat arrived.
type Transport interface {
	Heartbeat(ctx context.Context, q *protocol.Heartbeat) (*protocol.HeartbeatResponse, error)
}

const (
	defaultBasePath = "/coord/v1"
	// maxAnswerBytes bounds an answer: protocol.MaxShards shards with long epochs.
	maxAnswerBytes = 8 << 20
	maxErrorBytes  = 64 << 10
)

// httpTransport is the Transport of real coordinators.
type httpTransport struct {
	client      *http.Client
	ownsClient  bool
	urls        []string
	credentials Credentials
	// current counts the changes of coordinator.
	current atomic.Uint32
}

func newHTTPTransport(cfg *Config) (*httpTransport, error) {
	t := &httpTransport{client: cfg.HTTPClient, credentials: cfg.Credentials}
	var bad []error
	for i, base := range cfg.Coordinators {
		u, err := heartbeatURL(base, cfg.Stream, cfg.Group, cfg.MemberID)
		if err != nil {
			bad = append(bad, fmt.Errorf("consumer config: Coordinators[%d]: %w", i, err))
		}
		t.urls = append(t.urls, u)
	}
	if err := errors.Join(bad...); err != nil {
		return nil, err
	}
	if t.client == nil {
		t.ownsClient = true
		t.client = &http.Client{
			Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: 2},
			// A coordinator does not redirect. Whoever does would get our password.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
	}
	return t, nil
}

func heartbeatURL(base, stream, group, member string) (string, error) {
	u, err := coordinatorURL(base)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s/streams/%s/groups/%s/members/%s/heartbeat", u,
		url.PathEscape(stream), url.PathEscape(group), url.PathEscape(member)), nil
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

// Heartbeat asks one coordinator. If it does not answer, or cannot do anything
// now, the next heartbeat goes to the next one: that one may have the store that
// this one has lost. This heartbeat is not repeated, since it may have arrived.
func (t *httpTransport) Heartbeat(ctx context.Context, q *protocol.Heartbeat) (*protocol.HeartbeatResponse, error) {
	turn := t.current.Load()
	r, err := t.ask(ctx, t.urls[int(turn)%len(t.urls)], q)
	useless := err != nil && !errors.Is(context.Cause(ctx), errSuperseded)
	if useless || (err == nil && r.Status == protocol.StatusRetry) {
		t.current.CompareAndSwap(turn, turn+1)
	}
	return r, err
}

func (t *httpTransport) ask(ctx context.Context, target string, q *protocol.Heartbeat) (*protocol.HeartbeatResponse, error) {
	body, err := json.Marshal(q)
	if err != nil {
		return nil, fmt.Errorf("encode the heartbeat: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	resp, err := sendAuthorized(t.client, t.credentials, req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return nil, refusal(target, resp)
	}
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswerBytes+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the answer of %s: %w", target, err)
	case len(answer) > maxAnswerBytes:
		return nil, fmt.Errorf("the answer of %s is larger than %d bytes", target, maxAnswerBytes)
	}
	r := new(protocol.HeartbeatResponse)
	if err := json.Unmarshal(answer, r); err != nil {
		return nil, fmt.Errorf("decode the answer of %s: %w", target, err)
	}
	return r, nil
}

// refusal makes an answer other than 200 into an error that says what to do.
func refusal(target string, resp *http.Response) error {
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBytes))
	var said protocol.ErrorBody
	switch err := json.Unmarshal(body, &said); {
	case err == nil && said.ErrorCode != "":
		return fmt.Errorf("%s: %w", target, &protocol.Error{Code: said.ErrorCode, Message: said.Message})
	case resp.StatusCode == http.StatusUnauthorized:
		return fmt.Errorf("%s: %w", target, protocol.ErrUnauthorized)
	case resp.StatusCode == http.StatusForbidden:
		return fmt.Errorf("%s: %w", target, protocol.ErrForbidden)
	case resp.StatusCode == http.StatusBadGateway, resp.StatusCode == http.StatusServiceUnavailable, resp.StatusCode == http.StatusGatewayTimeout:
		return fmt.Errorf("%s answered %s: what stands in front of the coordinators reached none of them", target, resp.Status)
	}
	return fmt.Errorf("%s answered %s: check that this is the URL of a coordinator", target, resp.Status)
}

func (t *httpTransport) close() {
	if t.ownsClient {
		t.client.CloseIdleConnections()
	}
}
