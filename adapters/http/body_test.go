package httpapi

import (
	"errors"
	"io"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

func TestBadBodies(t *testing.T) {
	large := `{"requestedBy":"ops","reason":"` + strings.Repeat("x", protocol.MaxAdminBytes) + `"}`
	cases := []struct {
		name   string
		q      request
		status int
		code   string
		says   string
	}{
		{"no body", request{method: "POST", path: groupPath}, 400, "INVALID_REQUEST", "body: is empty"},
		{"only blanks", request{method: "POST", path: groupPath, body: " \n"}, 400, "INVALID_REQUEST", "body: is empty"},
		{"not JSON", request{method: "POST", path: groupPath, body: "hello"}, 400, "INVALID_REQUEST", "body: "},
		{"cut off", request{method: "POST", path: groupPath, body: `{"requestedBy":"o`}, 400, "INVALID_REQUEST", "body: "},
		{"two values", request{method: "POST", path: groupPath, body: createBody + createBody}, 400, "INVALID_REQUEST", "body: "},
		{"a list", request{method: "POST", path: groupPath, body: `[]`}, 400, "INVALID_REQUEST", "body: cannot be an array"},
		{"text for a number", request{method: "POST", path: groupPath, body: `{"initialShardCount":"four","requestedBy":"ops"}`}, 400, "INVALID_REQUEST", "initialShardCount cannot be a string"},
		{"fraction", request{method: "POST", path: groupPath, body: `{"initialShardCount":1.5,"requestedBy":"ops"}`}, 400, "INVALID_REQUEST", "initialShardCount cannot be a number"},
		{"number beyond all bounds", request{method: "POST", path: groupPath, body: `{"initialShardCount":99999999999999999999,"requestedBy":"ops"}`}, 400, "INVALID_REQUEST", "initialShardCount cannot be a number"},
		{"number for a text", request{method: "DELETE", path: groupPath, body: `{"requestedBy":7,"reason":"r"}`}, 400, "INVALID_REQUEST", "requestedBy cannot be a number"},
		{"too large", request{method: "DELETE", path: groupPath, body: large}, 413, "PAYLOAD_TOO_LARGE", "larger than 65536 bytes"},
		{"form", request{method: "POST", path: groupPath, body: createBody, header: map[string]string{"Content-Type": "application/x-www-form-urlencoded"}}, 415, "UNSUPPORTED_MEDIA_TYPE", "application/json"},
		{"no media type at all", request{method: "POST", path: groupPath, body: createBody, header: map[string]string{"Content-Type": "///"}}, 415, "UNSUPPORTED_MEDIA_TYPE", "application/json"},
		{"stream: not JSON", request{method: "POST", path: "/coord/v1/streams/orders", body: "hello"}, 400, "INVALID_REQUEST", "body: "},
		{"stream delete: no body", request{method: "DELETE", path: "/coord/v1/streams/orders"}, 400, "INVALID_REQUEST", "body: is empty"},
		{"stream: brace", request{method: "POST", path: "/coord/v1/streams/a%7D", body: createBody}, 400, "INVALID_REQUEST", "streamPrefix: must not contain"},
		{"stream delete: brace", request{method: "DELETE", path: "/coord/v1/streams/a%7D", body: deleteBody}, 400, "INVALID_REQUEST", "streamPrefix: must not contain"},
		{"stream read: brace", request{method: "GET", path: "/coord/v1/streams/a%7D"}, 400, "INVALID_REQUEST", "streamPrefix: must not contain"},
		{"heartbeat: no body", request{method: "POST", path: beatPath}, 400, "INVALID_REQUEST", "body: is empty"},
		{"heartbeat: form", request{method: "POST", path: beatPath, body: minimalBeat, header: map[string]string{"Content-Type": "text/plain"}}, 415, "UNSUPPORTED_MEDIA_TYPE", ""},
		{"heartbeat: no epoch", request{method: "POST", path: beatPath, body: strings.Replace(minimalBeat, `"memberEpoch":0,`, "", 1)}, 400, "INVALID_REQUEST", "memberEpoch: is missing"},
		{"heartbeat: wrong shard", request{method: "POST", path: beatPath, body: strings.Replace(minimalBeat, `{`, `{"ownedShards":["x"],`, 1)}, 400, "INVALID_REQUEST", "ownedShards: "},
		{"heartbeat: member name", request{method: "POST", path: groupPath + "/members/%09/heartbeat", body: minimalBeat}, 400, "INVALID_REQUEST", "memberId: "},
		{"heartbeat: prefix", request{method: "POST", path: "/coord/v1/streams/%7B/groups/g/members/m/heartbeat", body: minimalBeat}, 400, "INVALID_REQUEST", "streamPrefix: "},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			f := &fake{}
			c.q.auth = as("admin")
			w := c.q.send(t, newAPI(t, f))
			wantRefusal(t, w, c.status, c.code, c.says)
			if f.called() != "" {
				t.Errorf("the coordinator was asked %q", f.called())
			}
		})
	}
}

func TestContentTypesTaken(t *testing.T) {
	for _, kind := range []string{"", "application/json", "application/json; charset=utf-8", "APPLICATION/JSON", "application/merge-patch+json"} {
		q := request{method: "POST", path: groupPath, auth: as("writer"), body: createBody}
		if kind != "" {
			q.header = map[string]string{"Content-Type": kind}
		}
		if w := q.send(t, newAPI(t, &fake{})); w.Code != 201 {
			t.Errorf("%q: status %d %s", kind, w.Code, w.Body)
		}
	}
}

// The limit of a heartbeat is the stream's, and a body at the limit passes.
func TestHeartbeatLimit(t *testing.T) {
	f := &fake{limit: len(minimalBeat)}
	if w := (request{method: "POST", path: beatPath, body: minimalBeat}).send(t, newAPI(t, f)); w.Code != 200 {
		t.Errorf("at the limit: %d %s", w.Code, w.Body)
	}
	w := request{method: "POST", path: beatPath, body: minimalBeat + " "}.send(t, newAPI(t, f))
	wantRefusal(t, w, 413, "PAYLOAD_TOO_LARGE", "larger than")
}

type brokenBody struct{ io.Reader }

func (brokenBody) Read([]byte) (int, error) { return 0, errors.New("connection reset") }

func TestBodyThatBreaksOff(t *testing.T) {
	q := httptest.NewRequestWithContext(t.Context(), "POST", groupPath, brokenBody{})
	q.Header.Set("Authorization", as("writer"))
	w := httptest.NewRecorder()
	newAPI(t, &fake{}).ServeHTTP(w, q)
	wantRefusal(t, w, 400, "INVALID_REQUEST", "body: broke off")
}
