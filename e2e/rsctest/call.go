package rsctest

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// maxAnswer bounds an answer.
const maxAnswer = 8 << 20

// Call sends a request as the administrator. A coordinator that cannot be reached
// answers with status 0, and the body says why.
func (c *Coordinator) Call(method, path string, content any) (status int, body []byte) {
	c.TB.Helper()
	text, err := json.Marshal(content)
	if err != nil {
		c.TB.Fatal(err)
	}
	// For cleanups too, where the test's own context has ended.
	ctx, done := context.WithTimeout(context.WithoutCancel(c.TB.Context()), c.cfg.RequestTimeout)
	defer done()
	request, err := http.NewRequestWithContext(ctx, method, c.URL+path, bytes.NewReader(text))
	if err != nil {
		c.TB.Fatal(err)
	}
	request.SetBasicAuth("admin", "password")
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, []byte(err.Error())
	}
	defer func() { _ = response.Body.Close() }()
	if body, err = io.ReadAll(io.LimitReader(response.Body, maxAnswer)); err != nil {
		return 0, []byte(err.Error())
	}
	return response.StatusCode, body
}

// CreateStream creates a stream that is not there yet.
func (c *Coordinator) CreateStream(name string, shards int) {
	c.TB.Helper()
	status, body := c.Call(http.MethodPost, "/coord/v1/streams/"+name, protocol.CreateStream{InitialShardCount: &shards, RequestedBy: "test"})
	if status != http.StatusCreated {
		c.TB.Fatalf("create stream %s: %d %s", name, status, body)
	}
}
