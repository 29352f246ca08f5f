package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/memstore"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
	"github.com/redis-stream-coordinator/rsc/core/service"
)

// The tests of this file run the API on the real coordinator, in memory.

var _ Coordinator = (*service.Coordinator)(nil)

func realAPI(t *testing.T) (http.Handler, *service.Coordinator) {
	t.Helper()
	c, err := service.New(service.Config{ID: "c-1", Logger: slog.New(slog.DiscardHandler)}, service.Ports{Store: memstore.New(), Mutex: new(memstore.Mutex)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var loop sync.WaitGroup
	loop.Go(func() {
		if err := c.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(func() {
		stop()
		loop.Wait()
		ctx, done := context.WithTimeout(context.Background(), time.Minute)
		defer done()
		if err := c.Close(ctx); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	h, err := New(Config{Access: Access{Users: testUsers}}, c)
	if err != nil {
		t.Fatal(err)
	}
	return h, c
}

// do makes an admin call and checks its status.
func do(t *testing.T, h http.Handler, method, path, body string, status int) string {
	t.Helper()
	w := request{method: method, path: "/coord/v1" + path, auth: as("admin"), body: body}.send(t, h)
	if w.Code != status {
		t.Fatalf("%s %s: status %d, want %d: %s", method, path, w.Code, status, w.Body)
	}
	return w.Body.String()
}

func TestAdminCallsOnTheRealCoordinator(t *testing.T) {
	h, _ := realAPI(t)
	created := do(t, h, "POST", "/streams/orders", createBody, 201)
	if !strings.Contains(created, `"streamPrefix":"orders","shardCount":4,`) {
		t.Errorf("created %s", created)
	}
	do(t, h, "POST", "/streams/orders/groups/billing", `{"requestedBy":"ops"}`, 201)
	answers := map[string]string{}
	for _, path := range []string{
		"/streams", "/streams/orders", "/streams/orders/groups/billing", "/streams/orders/groups/billing/producer-routing", "/streams/orders/groups/other/producer-routing",
		"/monitoring/groups", "/monitoring/streams/orders/groups/billing", "/monitoring/streams/orders/groups/billing/members", "/monitoring/streams/orders/groups/billing/assignments",
	} {
		answers[path] = do(t, h, "GET", path, "", 200)
		noNullLists(t, path, answers[path])
	}
	want := map[string]string{
		"/streams":        `"groups":["billing"]`,
		"/streams/orders": `"groups":["billing"]`,
		"/streams/orders/groups/billing/producer-routing":       `"shards":[{"shardIndex":0,"streamKey":"orders:0","redisSlot":`,
		"/streams/orders/groups/other/producer-routing":         `"consumerGroup":"other"`,
		"/monitoring/groups":                                    `"consumerGroup":"billing","state":"EMPTY"`,
		"/monitoring/streams/orders/groups/billing/members":     `{"members":[]}`,
		"/monitoring/streams/orders/groups/billing/assignments": `"invariantViolations":[]`,
		"/streams/orders/groups/billing":                        `"shardCount":4,"activeMigration":null`,
		"/monitoring/streams/orders/groups/billing":             `"shardCount":4,"activeMigration":null`,
	}
	for path, part := range want {
		if !strings.Contains(answers[path], part) {
			t.Errorf("%s answered %s\nwithout %s", path, answers[path], part)
		}
	}
	do(t, h, "DELETE", "/streams/orders/groups/billing", deleteBody, 200)
	do(t, h, "GET", "/streams/orders/groups/billing", "", 404)
	do(t, h, "DELETE", "/streams/orders", deleteBody, 200)
	do(t, h, "GET", "/streams/orders", "", 404)
	do(t, h, "POST", "/streams/orders", createBody, 201)
}

func TestRefusalsOfTheRealCoordinator(t *testing.T) {
	h, _ := realAPI(t)
	do(t, h, "POST", "/streams/orders", createBody, 201)
	do(t, h, "POST", "/streams/orders/groups/billing", createBody, 201)
	cases := []struct {
		name, method, path, body string
		status                   int
		code, says               string
	}{
		{"create twice", "POST", "/streams/orders", createBody, 409, "STREAM_PREFIX_ALREADY_EXISTS", ""},
		{"create a group twice", "POST", "/streams/orders/groups/billing", createBody, 409, "GROUP_ALREADY_EXISTS", ""},
		{"other count", "POST", "/streams/orders/groups/x", `{"initialShardCount":5,"requestedBy":"ops"}`, 409, "SHARD_COUNT_MISMATCH", ""},
		{"no shards", "POST", "/streams/a", `{"initialShardCount":0,"requestedBy":"ops"}`, 400, "INVALID_REQUEST", "initialShardCount: is 0, must be between 1 and 4096"},
		{"too many shards", "POST", "/streams/a", `{"initialShardCount":4097,"requestedBy":"ops"}`, 400, "INVALID_REQUEST", "initialShardCount: is 4097"},
		{"negative, of a group", "POST", "/streams/a/groups/g", `{"initialShardCount":-1,"requestedBy":"ops"}`, 400, "INVALID_REQUEST", "initialShardCount: is -1"},
		{"nobody asks", "POST", "/streams/a", `{"initialShardCount":1}`, 400, "INVALID_REQUEST", "requestedBy: must not be blank"},
		{"null asks", "POST", "/streams/a", `{"requestedBy":null}`, 400, "INVALID_REQUEST", "requestedBy: must not be blank"},
		{"group start", "POST", "/streams/a", `{"requestedBy":"ops","groupStart":"now"}`, 400, "INVALID_REQUEST", "groupStart: is \"now\", must be earliest or latest"},
		{"delete without reason", "DELETE", "/streams/orders", `{"requestedBy":"ops"}`, 400, "INVALID_REQUEST", "reason: must not be blank"},
		{"delete with groups", "DELETE", "/streams/orders", deleteBody, 409, "STREAM_HAS_GROUPS", ""},
		{"delete of nothing", "DELETE", "/streams/none", deleteBody, 404, "STREAM_NOT_FOUND", ""},
		{"read of nothing", "GET", "/streams/none", "", 404, "STREAM_NOT_FOUND", ""},
		{"group of nothing", "GET", "/streams/none/groups/g", "", 404, "GROUP_NOT_FOUND", ""},
		{"unknown group", "GET", "/streams/orders/groups/g", "", 404, "GROUP_NOT_FOUND", ""},
		{"delete of an unknown group", "DELETE", "/streams/orders/groups/g", deleteBody, 404, "GROUP_NOT_FOUND", ""},
		{"routing of nothing", "GET", "/streams/none/groups/g/producer-routing", "", 404, "STREAM_NOT_FOUND", ""},
		{"members of nothing", "GET", "/monitoring/streams/none/groups/g/members", "", 404, "GROUP_NOT_FOUND", ""},
		{"assignments of nothing", "GET", "/monitoring/streams/none/groups/g/assignments", "", 404, "GROUP_NOT_FOUND", ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w := request{method: c.method, path: "/coord/v1" + c.path, auth: as("admin"), body: c.body}.send(t, h)
			wantRefusal(t, w, c.status, c.code, c.says)
		})
	}
}

// member is an unmodified client: it knows none of the added fields.
type member struct {
	t    *testing.T
	h    http.Handler
	id   string
	last protocol.HeartbeatResponse
	n    int
}

func (m *member) send(change func(*protocol.Heartbeat)) {
	m.t.Helper()
	m.n++
	q := protocol.Heartbeat{
		ProtocolVersion: 1, RequestID: fmt.Sprint(m.id, "-", m.n), MemberID: m.id, MemberName: m.id,
		MemberEpoch: m.last.MemberEpoch, MetadataVersion: m.last.MetadataVersion, Capacity: protocol.Capacity{MaxConcurrency: 1},
	}
	for _, s := range m.last.Assignment.AssignedShards {
		q.OwnedShards = append(q.OwnedShards, s.Shard)
	}
	if change != nil {
		change(&q)
	}
	body, err := json.Marshal(q)
	if err != nil {
		m.t.Fatal(err)
	}
	m.last = beat(m.t, m.h, "/coord/v1/streams/orders/groups/billing/members/"+m.id+"/heartbeat", string(body))
	if m.last.Status != protocol.StatusOK {
		m.t.Fatalf("%s was answered %+v", m.id, m.last)
	}
}

func shardsOf(list []protocol.AssignedShard) string {
	var b strings.Builder
	for _, s := range list {
		fmt.Fprint(&b, s.Shard, " ")
	}
	return strings.TrimSpace(b.String())
}

// The hand-over of one of two shards, seen by two unmodified clients.
func TestHandOver(t *testing.T) {
	h, _ := realAPI(t)
	do(t, h, "POST", "/streams/orders/groups/billing", `{"initialShardCount":2,"requestedBy":"ops"}`, 201)
	a, b := &member{t: t, h: h, id: "a"}, &member{t: t, h: h, id: "b"}
	expect := func(step string, m *member, assigned, pending string) {
		t.Helper()
		got := shardsOf(m.last.Assignment.AssignedShards)
		waiting := strings.Trim(fmt.Sprint([]protocol.ShardIndex(m.last.Assignment.PendingShards)), "[]")
		if got != assigned || waiting != pending {
			t.Fatalf("%s: %s is assigned %q and waits for %q, want %q and %q", step, m.id, got, waiting, assigned, pending)
		}
	}
	a.send(nil)
	expect("a joins", a, "0 1", "")
	first := a.last.MemberEpoch
	a.send(nil)
	expect("a acknowledges", a, "0 1", "")
	b.send(nil)
	expect("b joins", b, "", "1")
	a.send(nil)
	expect("a is asked for one", a, "0", "")
	if a.last.MemberEpoch <= first {
		t.Errorf("the epoch went from %d to %d", first, a.last.MemberEpoch)
	}
	b.send(nil)
	expect("b waits", b, "", "1")
	a.send(func(q *protocol.Heartbeat) {
		q.RevokingShards = []protocol.RevokingShard{{Shard: 1, State: protocol.RevokeRevoked}}
	})
	expect("a lets go", a, "0", "")
	b.send(nil)
	expect("b gets it", b, "1", "")
	b.send(nil)
	a.send(nil)
	group := do(t, h, "GET", "/streams/orders/groups/billing", "", 200)
	if !strings.Contains(group, `"state":"STABLE"`) || !strings.Contains(group, `"currentAssignmentSummary":{"a":1,"b":1}`) {
		t.Errorf("the group is %s", group)
	}
	for _, path := range []string{"/members", "/assignments"} {
		answer := do(t, h, "GET", "/monitoring/streams/orders/groups/billing"+path, "", 200)
		noNullLists(t, path, answer)
	}
	refusal := request{method: "DELETE", path: "/coord/v1/streams/orders/groups/billing", auth: as("admin"), body: `{"requestedBy":"ops","reason":"r"}`}.send(t, h)
	wantRefusal(t, refusal, 409, "GROUP_HAS_ACTIVE_MEMBERS", "force")
}

// Bodies in the forms of existing clients work against the real coordinator:
// join, then a steady heartbeat with the epoch of the answer.
func TestExistingClientsOnTheRealCoordinator(t *testing.T) {
	h, _ := realAPI(t)
	do(t, h, "POST", "/streams/orders", `{"initialShardCount":8,"requestedBy":"ops"}`, 201)
	for _, client := range []struct{ kind, member, group string }{{"jvm", "10.0.3.17-m0", "demo-workers"}, {"python", "worker-7c9d", "snakes"}} {
		t.Run(client.kind, func(t *testing.T) {
			path := "/coord/v1/streams/orders/groups/" + client.group + "/members/" + client.member + "/heartbeat"
			joined := beat(t, h, path, recorded(t, client.kind+"-join.json"))
			if joined.Status != protocol.StatusOK || len(joined.Assignment.AssignedShards) != 8 {
				t.Fatalf("join answered %+v", joined)
			}
			steady := patch(t, recorded(t, client.kind+"-steady.json"), map[string]any{
				"memberEpoch": joined.MemberEpoch, "metadataVersion": joined.MetadataVersion, "revokingShards": []any{},
				"ownedShards": joined.Assignment.AssignedShards,
			})
			again := beat(t, h, path, steady)
			if again.Status != protocol.StatusOK || again.MemberEpoch != joined.MemberEpoch || len(again.Assignment.AssignedShards) != 8 {
				t.Errorf("steady heartbeat answered %+v", again)
			}
		})
	}
}

func recorded(t *testing.T, name string) string {
	t.Helper()
	body, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// patch replaces fields of a JSON object.
func patch(t *testing.T, body string, fields map[string]any) string {
	t.Helper()
	var object map[string]any
	if err := json.Unmarshal([]byte(body), &object); err != nil {
		t.Fatal(err)
	}
	for k, v := range fields {
		object[k] = v
	}
	out, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// Unknown streams and groups are a status, never a 404, and leave nothing
// behind.
func TestHeartbeatsForNothing(t *testing.T) {
	h, c := realAPI(t)
	r := beat(t, h, "/coord/v1/streams/none/groups/g/members/m/heartbeat", minimalBeat)
	if r.Status != protocol.StatusUnknownMember || r.HeartbeatIntervalMs <= 0 || r.Reason == "" {
		t.Errorf("answered %+v", r)
	}
	list, err := c.Groups(t.Context())
	if err != nil || len(list.Groups) != 0 {
		t.Errorf("groups %+v %v", list, err)
	}
}

func TestUnsupportedProtocol(t *testing.T) {
	h, _ := realAPI(t)
	r := beat(t, h, beatPath, strings.Replace(minimalBeat, `"protocolVersion":1`, `"protocolVersion":2`, 1))
	if r.Status != protocol.StatusUnsupportedProtocol {
		t.Errorf("answered %+v", r)
	}
}

// A coordinator that ends tells members to repeat, and operators to go elsewhere.
func TestTerminating(t *testing.T) {
	h, c := realAPI(t)
	do(t, h, "POST", "/streams/orders", createBody, 201)
	if err := c.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r := beat(t, h, beatPath, minimalBeat); r.Status != protocol.StatusRetry {
		t.Errorf("answered %+v", r)
	}
	w := request{method: "POST", path: "/coord/v1/streams/more", auth: as("writer"), body: createBody}.send(t, h)
	wantRefusal(t, w, 503, "COORDINATOR_TERMINATING", "")
}

// noNullLists checks that only what may be unknown is null.
func noNullLists(t *testing.T, path, body string) {
	t.Helper()
	nullable := map[string]bool{"activeMigration": true, "lastHeartbeatAt": true, "memberLeaseExpiresAt": true, "rebalanceDeadlineAt": true, "lastDeliveredId": true, "lastAckedId": true, "updatedAt": true}
	var value any
	if err := json.Unmarshal([]byte(body), &value); err != nil {
		t.Fatal(err)
	}
	var walk func(name string, v any)
	walk = func(name string, v any) {
		switch v := v.(type) {
		case nil:
			if !nullable[name] {
				t.Errorf("%s: %s is null in %s", path, name, body)
			}
		case []any:
			for _, one := range v {
				walk(name, one)
			}
		case map[string]any:
			for key, one := range v {
				walk(key, one)
			}
		}
	}
	walk("", value)
}
