package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// api is the coordinators' API as an operator uses it. One that does not answer is left
// for the next one.
type api struct {
	client *http.Client
	// bases are where they are, at counts the changes from one to the next.
	bases    []string
	at       atomic.Int64
	password string
	stream   string
	group    string
}

const (
	apiTimeout   = 3 * time.Second
	maxAPIAnswer = 1 << 20
	requestedBy  = "demo"
)

func newAPI(c *coordinators, stream, group string) *api {
	return &api{
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1}, Timeout: apiTimeout},
		bases:  c.urls(0), password: c.passwords[adminUser], stream: url.PathEscape(stream), group: url.PathEscape(group),
	}
}

func (a *api) close() { a.client.CloseIdleConnections() }

func (a *api) createStream(ctx context.Context, shards int) error {
	body := protocol.CreateStream{InitialShardCount: &shards, RequestedBy: requestedBy}
	return a.call(ctx, http.MethodPost, "/streams/"+a.stream, &body, nil)
}

// scale asks for another shard count. It returns when producers are told of it; the rest
// goes on by itself.
func (a *api) scale(ctx context.Context, shards int, reason string) (protocol.Migration, error) {
	body := protocol.Scale{TargetShardCount: &shards, RequestedBy: requestedBy, Reason: reason}
	var scaled protocol.StreamScaled
	if err := a.call(ctx, http.MethodPost, "/streams/"+a.stream+"/scale", &body, &scaled); err != nil {
		return protocol.Migration{}, err
	}
	if len(scaled.Migrations) == 0 {
		return protocol.Migration{}, errors.New("the coordinator named no migration")
	}
	return scaled.Migrations[0], nil
}

// migration describes a change of the shard count.
func (a *api) migration(ctx context.Context, id string) (m protocol.Migration, err error) {
	err = a.call(ctx, http.MethodGet, "/streams/"+a.stream+"/migrations/"+url.PathEscape(id), nil, &m)
	return m, err
}

// describe returns the group with its members. It does not exist before a
// member joins.
func (a *api) describe(ctx context.Context) (protocol.Group, []protocol.Member, error) {
	var g protocol.Group
	var m protocol.MemberList
	path := "/monitoring/streams/" + a.stream + "/groups/" + a.group
	err := a.call(ctx, http.MethodGet, path, nil, &g)
	if err == nil {
		err = a.call(ctx, http.MethodGet, path+"/members", nil, &m)
	}
	return g, m.Members, err
}

// remove deletes the group and the stream with its records.
func (a *api) remove(ctx context.Context) error {
	body := protocol.Delete{RequestedBy: requestedBy, Reason: "the demo is over", Force: true, DeleteData: true}
	err := a.call(ctx, http.MethodDelete, "/streams/"+a.stream+"/groups/"+a.group, &body, nil)
	if errors.Is(err, protocol.ErrGroupNotFound) {
		err = nil // nobody joined
	}
	return errors.Join(err, a.call(ctx, http.MethodDelete, "/streams/"+a.stream, &body, nil))
}

// send asks the coordinator that answered last, and where it does not, each of the
// others once.
func (a *api) send(ctx context.Context, method, path string, body []byte) (resp *http.Response, err error) {
	for range a.bases {
		at := a.at.Load()
		var req *http.Request
		req, err = http.NewRequestWithContext(ctx, method, a.bases[int(at)%len(a.bases)]+"/coord/v1"+path, bytes.NewReader(body))
		if err != nil {
			return nil, err
		}
		req.SetBasicAuth(adminUser, a.password)
		req.Header.Set("Content-Type", "application/json")
		if resp, err = a.client.Do(req); err == nil {
			return resp, nil
		}
		a.at.CompareAndSwap(at, at+1)
	}
	return nil, err
}

// call makes a request. Errors: a *protocol.Error that the coordinator answered
// with, or what kept the answer from coming.
func (a *api) call(ctx context.Context, method, path string, body, answer any) error {
	encoded := []byte{}
	if body != nil {
		var err error
		if encoded, err = json.Marshal(body); err != nil {
			return err
		}
	}
	resp, err := a.send(ctx, method, path, encoded)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	told, err := io.ReadAll(io.LimitReader(resp.Body, maxAPIAnswer))
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	if resp.StatusCode >= http.StatusMultipleChoices {
		var refusal protocol.ErrorBody
		if err := json.Unmarshal(told, &refusal); err != nil || refusal.ErrorCode == "" {
			return fmt.Errorf("%s %s: %s", method, path, resp.Status)
		}
		return fmt.Errorf("%s %s: %w", method, path, &protocol.Error{Code: refusal.ErrorCode, Message: refusal.Message})
	}
	if answer == nil {
		return nil
	}
	if err := json.Unmarshal(told, answer); err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	return nil
}
