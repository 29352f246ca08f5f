package httpapi

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// fake is a Coordinator that writes down what it is asked, and answers from its
// fields.
type fake struct {
	mu    sync.Mutex
	calls []string

	err       error
	health    protocol.HealthStatus
	limit     int
	heartbeat func(ctx context.Context, q *protocol.Heartbeat) protocol.HeartbeatResponse
	routing   protocol.Routing
	panics    any
}

func (f *fake) note(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, fmt.Sprintf(format, args...))
	if f.panics != nil {
		panic(f.panics)
	}
}

func (f *fake) called() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Join(f.calls, "; ")
}

func (f *fake) Heartbeat(ctx context.Context, stream, group string, q *protocol.Heartbeat) protocol.HeartbeatResponse {
	f.note("Heartbeat %s %s %s", stream, group, q.MemberID)
	if f.heartbeat != nil {
		return f.heartbeat(ctx, q)
	}
	return protocol.NewHeartbeatResponse(q, protocol.StatusOK, "", protocol.DefaultTimings())
}

func (f *fake) HeartbeatLimit(string) int {
	if f.limit > 0 {
		return f.limit
	}
	return protocol.HeartbeatLimit(1)
}

func (f *fake) CreateStream(_ context.Context, prefix string, r protocol.CreateStream) (protocol.StreamCreated, error) {
	f.note("CreateStream %s by %s", prefix, r.RequestedBy)
	return protocol.StreamCreated{StreamPrefix: prefix, ShardCount: 4, MetadataVersion: 1}, f.err
}

func (f *fake) Stream(_ context.Context, prefix string) (protocol.Stream, error) {
	f.note("Stream %s", prefix)
	return protocol.Stream{StreamPrefix: prefix, Groups: []string{}}, f.err
}

func (f *fake) Streams(context.Context) (protocol.StreamList, error) {
	f.note("Streams")
	return protocol.StreamList{Streams: []protocol.Stream{}}, f.err
}

func (f *fake) DeleteStream(_ context.Context, prefix string, r protocol.Delete) (protocol.Stream, error) {
	f.note("DeleteStream %s by %s because %s data %t", prefix, r.RequestedBy, r.Reason, r.DeleteData)
	return protocol.Stream{StreamPrefix: prefix, Groups: []string{}}, f.err
}

func (f *fake) CreateGroup(_ context.Context, prefix, group string, r protocol.CreateGroup) (protocol.Group, error) {
	f.note("CreateGroup %s %s by %s", prefix, group, r.RequestedBy)
	return protocol.Group{StreamPrefix: prefix, ConsumerGroup: group, State: protocol.GroupEmpty}, f.err
}

func (f *fake) Group(_ context.Context, prefix, group string) (protocol.Group, error) {
	f.note("Group %s %s", prefix, group)
	return protocol.Group{StreamPrefix: prefix, ConsumerGroup: group, State: protocol.GroupEmpty}, f.err
}

func (f *fake) Groups(context.Context) (protocol.GroupList, error) {
	f.note("Groups")
	return protocol.GroupList{Groups: []protocol.Group{}}, f.err
}

func (f *fake) DeleteGroup(_ context.Context, prefix, group string, r protocol.Delete) (protocol.Group, error) {
	f.note("DeleteGroup %s %s by %s because %s force %t", prefix, group, r.RequestedBy, r.Reason, r.Force)
	return protocol.Group{StreamPrefix: prefix, ConsumerGroup: group}, f.err
}

func (f *fake) Members(_ context.Context, prefix, group string) (protocol.MemberList, error) {
	f.note("Members %s %s", prefix, group)
	return protocol.MemberList{Members: []protocol.Member{}}, f.err
}

func (f *fake) Assignments(_ context.Context, prefix, group string) (protocol.Assignments, error) {
	f.note("Assignments %s %s", prefix, group)
	return protocol.Assignments{}, f.err
}

func (f *fake) Routing(_ context.Context, prefix, group string) (protocol.Routing, error) {
	f.note("Routing %s %s", prefix, group)
	r := f.routing
	r.StreamPrefix, r.ConsumerGroup = prefix, group
	if r.Shards == nil {
		r.Shards = []protocol.RouteShard{}
	}
	return r, f.err
}

func (f *fake) Health(context.Context) protocol.Health {
	f.note("Health")
	status := f.health
	if status == "" {
		status = protocol.HealthUp
	}
	return protocol.Health{Status: status, CoordinatorID: "c-1", Store: "UP", Redis: "UP", Loop: "UP", Reason: "dial tcp 10.9.8.7:6379"}
}

// The users of every test, one for each role.
var testUsers = []User{
	{Username: "reader", Password: "reads", Roles: []Role{RoleRead}},
	{Username: "monitor", Password: "watches", Roles: []Role{RoleMonitor}},
	{Username: "writer", Password: "writes", Roles: []Role{RoleWrite}},
	{Username: "member", Password: "beats", Roles: []Role{RoleMember}},
	{Username: "admin", Password: "does:all", Roles: AllRoles()},
}

// as returns the Authorization header of a test user; "" gives none.
func as(username string) string {
	for _, u := range testUsers {
		if u.Username == username {
			return basic(u.Username, u.Password)
		}
	}
	return ""
}

func basic(username, password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(username+":"+password))
}

func newAPI(t testing.TB, f Coordinator, change ...func(*Config)) *API {
	t.Helper()
	config := Config{Access: Access{Users: testUsers}}
	for _, c := range change {
		c(&config)
	}
	h, err := New(config, f)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	return h
}

// request is one call of a test.
type request struct {
	method, path string
	auth         string
	body         string
	header       map[string]string
}

func (r request) send(t testing.TB, h http.Handler) *httptest.ResponseRecorder {
	t.Helper()
	var body io.Reader
	if r.body != "" {
		body = strings.NewReader(r.body)
	}
	q := httptest.NewRequestWithContext(t.Context(), r.method, r.path, body)
	if r.auth != "" {
		q.Header.Set("Authorization", r.auth)
	}
	for k, v := range r.header {
		q.Header.Set(k, v)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, q)
	return w
}

const (
	groupPath   = "/coord/v1/streams/orders/groups/billing"
	beatPath    = groupPath + "/members/m/heartbeat"
	createBody  = `{"initialShardCount":4,"requestedBy":"ops"}`
	deleteBody  = `{"requestedBy":"ops","reason":"done","force":true,"deleteData":true}`
	minimalBeat = `{"protocolVersion":1,"requestId":"r-1","memberId":"m","memberEpoch":0,"metadataVersion":0,"runtimeConsumerCapacity":{"runtimeMaxConcurrency":1,"availableConcurrency":1}}`
)
