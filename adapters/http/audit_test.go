package httpapi

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/port"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

func textLogger(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
}

// auditor keeps what is recorded.
type auditor struct {
	mu      sync.Mutex
	entries []port.AuditEntry
	err     error
}

func (a *auditor) Record(_ context.Context, e port.AuditEntry) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.entries = append(a.entries, e)
	return a.err
}

// taken returns what was recorded since it was last asked, without the times.
func (a *auditor) taken(t *testing.T) []port.AuditEntry {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	list := a.entries
	a.entries = nil
	for i := range list {
		if e := &list[i]; time.Since(e.Timestamp) > time.Hour || e.Timestamp.Location() != time.UTC || e.Duration < 0 {
			t.Errorf("at %s for %s", e.Timestamp, e.Duration)
		}
		list[i].Timestamp, list[i].Duration = time.Time{}, 0
	}
	return list
}

func digest(body string) string {
	sum := sha256.Sum256([]byte(body))
	return hex.EncodeToString(sum[:])
}

// Every attempt to change something leaves one entry, whatever became of it.
func TestAudit(t *testing.T) {
	const body = `{"initialShardCount":4,"requestedBy":"ops","reason":"launch","autoCreateGroups":true,"somethingElse":"canary"}`
	create := request{method: "POST", path: "/coord/v1/streams/orders", auth: as("writer"), body: body}
	with := func(q request, change func(*request)) request { change(&q); return q }
	base := port.AuditEntry{
		CoordinatorID: "c-1", Action: "CREATE_STREAM", Outcome: port.AuditSuccess, Status: 201,
		Principal: "writer", Roles: []string{"WRITE"}, Method: "POST", Path: "/coord/v1/streams/orders", Route: "/coord/v1/streams/{streamPrefix}",
		StreamPrefix: "orders", RequestedBy: "ops", Reason: "launch", ClientAddress: "192.0.2.1", BodySHA256: digest(body),
		Summary: map[string]string{"initialShardCount": "4", "autoCreateGroups": "true"},
	}
	but := func(change func(*port.AuditEntry)) port.AuditEntry { e := base; change(&e); return e }
	unread := func(e *port.AuditEntry) { e.RequestedBy, e.Reason, e.BodySHA256, e.Summary = "", "", "", nil }
	tests := []struct {
		name string
		fake *fake
		request
		want port.AuditEntry
	}{
		{"carried out", &fake{}, create, base},
		{"all headers", &fake{}, with(create, func(q *request) {
			q.path += "?dry=1&access_token=canary&%70assword=canary"
			q.header = map[string]string{"X-Correlation-Id": "corr-1", "X-Amzn-Trace-Id": "amzn-1", "X-Forwarded-For": "10.1.1.1, 10.2.2.2", "User-Agent": "curl/8"}
		}), but(func(e *port.AuditEntry) {
			e.Query, e.RequestID, e.ForwardedFor, e.UserAgent = "dry=1&access_token=***&%70assword=***", "corr-1", "10.1.1.1, 10.2.2.2", "curl/8"
		})},
		{"refused by the coordinator", &fake{err: protocol.ErrStreamExists}, create, but(func(e *port.AuditEntry) { e.Outcome, e.Status = port.AuditFailed, 409 })},
		{"not possible now", &fake{err: protocol.ErrStoreUnavailable}, create, but(func(e *port.AuditEntry) { e.Outcome, e.Status = port.AuditFailed, 503 })},
		{"failed", &fake{err: errTeapot}, create, but(func(e *port.AuditEntry) { e.Outcome, e.Status = port.AuditError, 500 })},
		{"panic", &fake{panics: "kaboom"}, create, but(func(e *port.AuditEntry) { e.Outcome, e.Status = port.AuditError, 500 })},
		{"nobody", &fake{}, with(create, func(q *request) { q.auth = "" }), but(func(e *port.AuditEntry) {
			e.Outcome, e.Status, e.Principal, e.Roles = port.AuditUnauthorized, 401, "", nil
			unread(e)
		})},
		{"wrong password", &fake{}, with(create, func(q *request) { q.auth = basic("writer", "canary") }), but(func(e *port.AuditEntry) {
			e.Outcome, e.Status, e.Principal, e.Roles = port.AuditUnauthorized, 401, "", nil
			unread(e)
		})},
		{"wrong role", &fake{}, with(create, func(q *request) { q.auth = as("reader") }), but(func(e *port.AuditEntry) {
			e.Outcome, e.Status, e.Principal, e.Roles = port.AuditForbidden, 403, "reader", []string{"READ"}
			unread(e)
		})},
		{"no JSON", &fake{}, with(create, func(q *request) { q.body = "canary" }), but(func(e *port.AuditEntry) {
			unread(e)
			e.Outcome, e.Status, e.BodySHA256 = port.AuditFailed, 400, digest("canary")
		})},
		{"fields of other types", &fake{}, with(create, func(q *request) { q.body = `{"requestedBy":["ops"],"initialShardCount":{"a":1},"force":null}` }), but(func(e *port.AuditEntry) {
			unread(e)
			e.Outcome, e.Status, e.BodySHA256 = port.AuditFailed, 400, digest(`{"requestedBy":["ops"],"initialShardCount":{"a":1},"force":null}`)
		})},
		{"too large", &fake{}, with(create, func(q *request) { q.body = strings.Repeat(" ", protocol.MaxAdminBytes+1) }), but(func(e *port.AuditEntry) {
			unread(e)
			e.Outcome, e.Status = port.AuditFailed, 413
		})},
		{"encoded slash", &fake{}, with(create, func(q *request) { q.path = "/coord/v1/streams/a%2Fb" }), but(func(e *port.AuditEntry) {
			unread(e)
			e.Outcome, e.Status, e.Principal, e.Roles, e.Path, e.StreamPrefix = port.AuditFailed, 400, "", nil, "/coord/v1/streams/a%2Fb", "a%2Fb"
		})},
		{"bad name", &fake{}, with(create, func(q *request) { q.path = "/coord/v1/streams/a%7Bb" }), but(func(e *port.AuditEntry) {
			unread(e)
			e.Outcome, e.Status, e.Path, e.StreamPrefix = port.AuditFailed, 400, "/coord/v1/streams/a%7Bb", "a{b"
		})},
		{"fields in another case", &fake{}, with(create, func(q *request) { q.body = `{"REQUESTEDBY":"ops","Reason":"launch","initialshardcount":4}` }), but(func(e *port.AuditEntry) {
			e.BodySHA256, e.Summary = digest(`{"REQUESTEDBY":"ops","Reason":"launch","initialshardcount":4}`), map[string]string{"initialShardCount": "4"}
		})},
		{"a group's deletion", &fake{}, request{method: "DELETE", path: groupPath, auth: as("admin"), body: deleteBody}, port.AuditEntry{
			CoordinatorID: "c-1", Action: "DELETE_GROUP", Outcome: port.AuditSuccess, Status: 200,
			Principal: "admin", Roles: []string{"ADMIN", "MEMBER", "MONITOR", "READ", "WRITE"}, Method: "DELETE", Path: groupPath,
			Route: "/coord/v1/streams/{streamPrefix}/groups/{consumerGroup}", StreamPrefix: "orders", ConsumerGroup: "billing",
			RequestedBy: "ops", Reason: "done", ClientAddress: "192.0.2.1", BodySHA256: digest(deleteBody), Summary: map[string]string{"force": "true", "deleteData": "true"},
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			kept := &auditor{}
			w := tt.send(t, newAPI(t, tt.fake, func(c *Config) { c.Audit, c.CoordinatorID = kept, "c-1" }))
			if w.Code != tt.want.Status {
				t.Errorf("answered %d %s", w.Code, w.Body)
			}
			entries := kept.taken(t)
			if len(entries) != 1 {
				t.Fatalf("%d entries, want 1", len(entries))
			}
			if !reflect.DeepEqual(entries[0], tt.want) {
				t.Errorf("got  %+v\nwant %+v", entries[0], tt.want)
			}
		})
	}
}

// What changes nothing, or is a member's own business, leaves no entry.
func TestNotAudited(t *testing.T) {
	kept := &auditor{}
	h := newAPI(t, &fake{}, func(c *Config) { c.Audit = kept })
	for _, q := range []request{
		{method: "GET", path: "/coord/v1/streams/orders", auth: as("reader")},
		{method: "HEAD", path: "/coord/v1/streams/orders", auth: as("reader")},
		{method: "GET", path: "/coord/v1/streams/orders"},
		{method: "POST", path: beatPath, body: minimalBeat},
		{method: "POST", path: loginPath, auth: as("writer")},
		{method: "POST", path: loginPath},
		{method: "PUT", path: "/coord/v1/streams/orders", auth: as("writer"), body: createBody},
		{method: "POST", path: "/coord/v1/none", auth: as("writer"), body: createBody},
	} {
		q.send(t, h)
	}
	if entries := kept.taken(t); len(entries) != 0 {
		t.Errorf("entries %+v", entries)
	}
}

// Every route that changes something has a name in the audit, and no other has.
func TestEveryChangeIsAudited(t *testing.T) {
	a := &api{config: Config{}.withDefaults()}
	list := a.routes()
	routes := map[string]bool{}
	for _, r := range list {
		key := r.method + " " + trimBase(r.path)
		routes[key] = true
		_, named := actions[key]
		changes := r.method != "GET" && r.path != DefaultBasePath+heartbeatRoute && r.path != DefaultBasePath+loginRoute
		if changes != named {
			t.Errorf("%s: changes something %t, has a name in actions %t", key, changes, named)
		}
	}
	for r, action := range a.auditedRoutes(list) {
		if action == otherAction {
			t.Errorf("%s has no name in actions", r)
		}
	}
}

// The limit on changes is audited too.
func TestLimitedChangesAreAudited(t *testing.T) {
	kept := &auditor{}
	h := newAPI(t, &fake{}, func(c *Config) { c.Audit = kept; c.Access.RateLimit.Enabled = true })
	request{method: "POST", path: "/coord/v1/streams/orders", auth: as("writer"), body: createBody}.send(t, h)
	entries := kept.taken(t)
	if len(entries) != 1 || entries[0].Outcome != port.AuditFailed || entries[0].Status != 429 || entries[0].Principal != "writer" {
		t.Errorf("entries %+v", entries)
	}
}

// The line of the log, which installations search: names of attributes and their
// order.
func TestAuditLog(t *testing.T) {
	var log strings.Builder
	logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelError, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		if a.Key == "durationMs" {
			a.Value = slog.IntValue(7)
		}
		return a
	}}))
	h := newAPI(t, &fake{}, func(c *Config) { c.Logger, c.CoordinatorID = logger, "c-1" })
	request{method: "DELETE", path: groupPath, auth: as("writer"), body: deleteBody, header: map[string]string{"X-Request-Id": "r 1", "User-Agent": "curl"}}.send(t, h)
	request{method: "POST", path: "/coord/v1/streams/pay"}.send(t, h)
	want := `level=INFO msg=audit logger=redis-stream-coordinator.audit action=DELETE_GROUP outcome=SUCCESS status=200 principal=writer coordinatorId=c-1 method=DELETE ` +
		`path=/coord/v1/streams/orders/groups/billing requestedBy=ops reason=done requestId="r 1" streamPrefix=orders consumerGroup=billing ` +
		`route=/coord/v1/streams/{streamPrefix}/groups/{consumerGroup} clientAddress=192.0.2.1 userAgent=curl requestBodySha256=` + digest(deleteBody) +
		` durationMs=7 roles=[WRITE] requestSummary="deleteData=true force=true"` + "\n" +
		`level=INFO msg=audit logger=redis-stream-coordinator.audit action=CREATE_STREAM outcome=UNAUTHORIZED status=401 principal=anonymous coordinatorId=c-1 method=POST ` +
		`path=/coord/v1/streams/pay streamPrefix=pay route=/coord/v1/streams/{streamPrefix} clientAddress=192.0.2.1 durationMs=7` + "\n"
	if log.String() != want {
		t.Errorf("got\n%s\nwant\n%s", log.String(), want)
	}
}

// An entry that cannot be kept stands in the log, and the caller gets the answer.
func TestAuditThatCannotBeKept(t *testing.T) {
	var log strings.Builder
	kept := &auditor{err: errors.New("disk full")}
	h := newAPI(t, &fake{}, func(c *Config) { c.Audit, c.Logger = kept, textLogger(&log) })
	w := request{method: "POST", path: "/coord/v1/streams/orders", auth: as("writer"), body: createBody}.send(t, h)
	if w.Code != 201 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	for _, part := range []string{"an audit entry was not kept", "disk full", "action=CREATE_STREAM", "principal=writer", "requestedBy=ops"} {
		if !strings.Contains(log.String(), part) {
			t.Errorf("the log lacks %q:\n%s", part, log.String())
		}
	}
}

// Whatever a caller sends, an entry stays small.
func TestAuditEntriesAreBounded(t *testing.T) {
	kept := &auditor{}
	h := newAPI(t, &fake{}, func(c *Config) { c.Audit = kept })
	long := strings.Repeat("ä", 10_000)
	for _, path := range []string{"/coord/v1/streams/orders", "/coord/v1/streams/" + strings.Repeat("x", 30_000)} {
		q := httptest.NewRequestWithContext(t.Context(), "POST", path+"?q="+strings.Repeat("y", 30_000),
			strings.NewReader(`{"requestedBy":"`+long+`","reason":"`+long+`","groupStart":"`+long+`"}`))
		for _, name := range []string{"X-Request-Id", "X-Forwarded-For", "User-Agent"} {
			q.Header.Set(name, long)
		}
		q.Header.Set("Authorization", as("writer"))
		h.ServeHTTP(httptest.NewRecorder(), q)
	}
	entries := kept.taken(t)
	if len(entries) != 2 || !strings.HasPrefix(entries[0].Reason, "ä") || entries[1].Reason != "" {
		t.Fatalf("%d entries", len(entries))
	}
	for _, e := range entries {
		text, err := e.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		if len(text) > 8<<10 {
			t.Errorf("an entry of %d bytes", len(text))
		}
	}
}
