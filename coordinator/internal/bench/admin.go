package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	httpapi "github.com/redis-stream-coordinator/rsc/adapters/http"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

const (
	// adminTimeout bounds a call: a stream with many shards takes a while.
	adminTimeout = time.Minute
	maxAnswer    = 4 << 20
	requestedBy  = "rsc bench"
)

// admin makes and removes what is measured with.
type admin struct {
	client             *http.Client
	base               string
	username, password string
}

func newAdmin(url, username, password string) *admin {
	base := strings.TrimRight(url, "/")
	if strings.Count(base, "/") < 3 {
		base += httpapi.DefaultBasePath
	}
	return &admin{client: &http.Client{Transport: &http.Transport{}, Timeout: adminTimeout}, base: base, username: username, password: password}
}

func (a *admin) close() { a.client.CloseIdleConnections() }

func (a *admin) createStream(ctx context.Context, stream string, shards int) error {
	return a.call(ctx, http.MethodPost, "/streams/"+stream, protocol.CreateStream{InitialShardCount: &shards, RequestedBy: requestedBy}, nil)
}

func (a *admin) group(ctx context.Context, stream, group string) (g protocol.Group, err error) {
	err = a.call(ctx, http.MethodGet, "/streams/"+stream+"/groups/"+group, nil, &g)
	return g, err
}

// deleteGroup removes a group; one that nobody joined is no trouble.
func (a *admin) deleteGroup(ctx context.Context, stream, group string) error {
	err := a.call(ctx, http.MethodDelete, "/streams/"+stream+"/groups/"+group, removal(), nil)
	if errors.Is(err, protocol.ErrGroupNotFound) {
		return nil
	}
	return err
}

func (a *admin) deleteStream(ctx context.Context, stream string) error {
	return a.call(ctx, http.MethodDelete, "/streams/"+stream, removal(), nil)
}

func removal() protocol.Delete {
	return protocol.Delete{RequestedBy: requestedBy, Reason: "the benchmark is over", Force: true, DeleteData: true}
}

// call makes a request. Errors: what the coordinator refuses with, or what kept the
// answer from coming.
func (a *admin) call(ctx context.Context, method, path string, body, answer any) error {
	encoded, err := json.Marshal(body)
	if err != nil {
		return err
	}
	q, err := http.NewRequestWithContext(ctx, method, a.base+path, bytes.NewReader(encoded))
	if err != nil {
		return err
	}
	q.SetBasicAuth(a.username, a.password)
	q.Header.Set("Content-Type", "application/json")
	r, err := a.client.Do(q)
	if err != nil {
		return err
	}
	defer func() { _ = r.Body.Close() }()
	told, err := io.ReadAll(io.LimitReader(r.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	if r.StatusCode >= http.StatusMultipleChoices {
		var refusal protocol.ErrorBody
		if err := json.Unmarshal(told, &refusal); err != nil || refusal.ErrorCode == "" {
			return fmt.Errorf("%s %s: %s", method, path, r.Status)
		}
		return &protocol.Error{Code: refusal.ErrorCode, Message: refusal.Message}
	}
	if answer == nil {
		return nil
	}
	return json.Unmarshal(told, answer)
}
