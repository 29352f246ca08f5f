package httpapi

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

// routeCases has one successful call for every route.
var routeCases = []struct {
	request
	route  string // as the table has it, without the base path
	status int
	called string
	body   string // a part of the answer
}{
	{request{method: "POST", path: beatPath, body: minimalBeat}, heartbeatRoute, 200, "Heartbeat orders billing m", `{"responseTo":"r-1","status":"OK","memberId":"m",`},
	{request{method: "POST", path: "/coord/v1/auth/login", body: `{"username":"reader","password":"reads"}`}, "/auth/login", 200, "", `"tokenType":"Bearer"`},
	{request{method: "GET", path: "/coord/v1/streams", auth: as("reader")}, "/streams", 200, "Streams", `{"streams":[]}`},
	{request{method: "POST", path: "/coord/v1/streams/orders", auth: as("writer"), body: createBody}, streamRoute, 201, "CreateStream orders by ops", `{"streamPrefix":"orders","shardCount":4,"metadataVersion":1}`},
	{request{method: "GET", path: "/coord/v1/streams/orders", auth: as("reader")}, streamRoute, 200, "Stream orders", `"groups":[]`},
	{request{method: "DELETE", path: "/coord/v1/streams/orders", auth: as("writer"), body: deleteBody}, streamRoute, 200, "DeleteStream orders by ops because done data true", `"streamPrefix":"orders"`},
	{request{method: "POST", path: groupPath, auth: as("writer"), body: createBody}, groupRoute, 201, "CreateGroup orders billing by ops", `"consumerGroup":"billing","state":"EMPTY"`},
	{request{method: "GET", path: groupPath, auth: as("reader")}, groupRoute, 200, "Group orders billing", `"activeMigration":null`},
	{request{method: "DELETE", path: groupPath, auth: as("writer"), body: deleteBody}, groupRoute, 200, "DeleteGroup orders billing by ops because done force true", `"consumerGroup":"billing"`},
	{request{method: "GET", path: groupPath + "/producer-routing", auth: as("reader")}, groupRoute + "/producer-routing", 200, "Routing orders billing", `"shards":[]`},
	{request{method: "GET", path: "/coord/v1/monitoring/session", auth: as("reader")}, "/monitoring/session", 200, "", `{"authenticated":true,"username":"reader","roles":["READ"]}`},
	{request{method: "GET", path: "/coord/v1/monitoring/health", auth: as("reader")}, "/monitoring/health", 200, "Health", `{"status":"UP","coordinatorId":"c-1","store":"UP","redis":"UP","loop":"UP"`},
	{request{method: "GET", path: "/coord/v1/monitoring/compatibility", auth: as("reader")}, "/monitoring/compatibility", 200, "", `"timingDefaults":{"heartbeatInterval":"PT3S","memberLeaseTtl":"PT15S","rebalanceTimeout":"PT1M"}`},
	{request{method: "GET", path: "/coord/v1/monitoring/groups", auth: as("reader")}, "/monitoring/groups", 200, "Groups", `{"groups":[]}`},
	{request{method: "GET", path: "/coord/v1/monitoring/streams/orders/groups/billing", auth: as("monitor")}, "/monitoring" + groupRoute, 200, "Group orders billing", `"consumerGroup":"billing"`},
	{request{method: "GET", path: "/coord/v1/monitoring/streams/orders/groups/billing/members", auth: as("reader")}, "/monitoring" + groupRoute + "/members", 200, "Members orders billing", `{"members":[]}`},
	{request{method: "GET", path: "/coord/v1/monitoring/streams/orders/groups/billing/assignments", auth: as("reader")}, "/monitoring" + groupRoute + "/assignments", 200, "Assignments orders billing", `"targetAssignment"`},
	{request{method: "GET", path: "/health/live"}, "/health/live", 200, "", `{"status":"UP"}`},
	{request{method: "GET", path: "/health/ready"}, "/health/ready", 200, "Health", `{"status":"UP","store":"UP","redis":"UP","loop":"UP"}`},
	{request{method: "GET", path: "/actuator/health"}, "/actuator/health", 200, "Health", `"status":"UP"`},
	{request{method: "GET", path: "/actuator/health/liveness"}, "/actuator/health/liveness", 200, "", `"status":"UP"`},
	{request{method: "GET", path: "/actuator/health/readiness"}, "/actuator/health/readiness", 200, "Health", `"status":"UP"`},
}

func TestEveryRouteAnswers(t *testing.T) {
	untested := map[string]bool{}
	a := &api{config: Config{}.withDefaults()}
	for _, r := range a.routes() {
		if r.path == "/docs" || r.path == "/scalar" {
			continue // a page, see TestPageLoadsNothingFromOutside
		}
		untested[r.method+" "+strings.TrimPrefix(r.path, DefaultBasePath)] = true
	}
	for _, c := range routeCases {
		t.Run(c.method+" "+c.route, func(t *testing.T) {
			f := &fake{}
			w := c.send(t, newAPI(t, f))
			if w.Code != c.status {
				t.Errorf("status %d, want %d; body %s", w.Code, c.status, w.Body)
			}
			if got := f.called(); got != c.called {
				t.Errorf("the coordinator was asked %q, want %q", got, c.called)
			}
			if !strings.Contains(w.Body.String(), c.body) {
				t.Errorf("body %s\nlacks %s", w.Body, c.body)
			}
			if !json.Valid(w.Body.Bytes()) {
				t.Errorf("body is not JSON: %s", w.Body)
			}
			if got := w.Header().Get("Content-Type"); got != "application/json; charset=utf-8" {
				t.Errorf("content type %q", got)
			}
		})
		delete(untested, c.method+" "+c.route)
	}
	for r := range untested {
		t.Errorf("no case for %s", r)
	}
}

// Errors of the coordinator reach the caller of every route that can have one.
func TestEveryRouteRefuses(t *testing.T) {
	for _, c := range routeCases {
		if c.called == "" || c.called == "Health" || strings.HasPrefix(c.called, "Heartbeat") {
			continue
		}
		t.Run(c.method+" "+c.route, func(t *testing.T) {
			w := c.send(t, newAPI(t, &fake{err: errTeapot}))
			if w.Code != http.StatusInternalServerError {
				t.Errorf("status %d, want 500; body %s", w.Code, w.Body)
			}
		})
	}
}

func TestWrongPathsAndMethods(t *testing.T) {
	cases := []struct {
		name         string
		method, path string
		status       int
		code         string
		allow        string
	}{
		{"unknown path", "GET", "/coord/v1/nothing", 404, "ROUTE_NOT_FOUND", ""},
		{"root", "GET", "/", 404, "ROUTE_NOT_FOUND", ""},
		{"outside the base path", "GET", "/streams", 404, "ROUTE_NOT_FOUND", ""},
		{"trailing slash", "GET", "/coord/v1/streams/", 404, "ROUTE_NOT_FOUND", ""},
		{"trailing slash of a group", "GET", groupPath + "/", 404, "ROUTE_NOT_FOUND", ""},
		{"other letter case", "GET", "/coord/v1/Streams", 404, "ROUTE_NOT_FOUND", ""},
		{"wrong method", "PUT", groupPath, 405, "METHOD_NOT_ALLOWED", "DELETE, GET, HEAD, POST"},
		{"GET of a heartbeat", "GET", beatPath, 405, "METHOD_NOT_ALLOWED", "POST"},
		{"encoded slash", "GET", "/coord/v1/streams/a%2Fb", 400, "INVALID_REQUEST", ""},
		{"encoded slash, small", "POST", "/coord/v1/streams/a%2fb/groups/g/members/m/heartbeat", 400, "INVALID_REQUEST", ""},
		{"encoded slash in no route", "GET", "/x%2Fy", 400, "INVALID_REQUEST", ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			f := &fake{}
			w := request{method: c.method, path: c.path, auth: as("admin")}.send(t, newAPI(t, f))
			wantRefusal(t, w, c.status, c.code, "")
			if got := sortedList(w.Header().Get("Allow")); got != c.allow {
				t.Errorf("Allow: %q, want %q", got, c.allow)
			}
			if f.called() != "" {
				t.Errorf("the coordinator was asked %q", f.called())
			}
		})
	}
}

func TestNamesInPaths(t *testing.T) {
	cases := []struct {
		name   string
		path   string
		called string
		says   string // for a refusal
	}{
		{"plus is a plus", "/coord/v1/streams/a+b/groups/g+1", "Group a+b g+1", ""},
		{"plus beside an escape", "/coord/v1/streams/a+b%3Ac/groups/g", "Group a+b:c g", ""},
		{"blank", "/coord/v1/streams/a%20b/groups/g", "Group a b g", ""},
		{"percent", "/coord/v1/streams/a%25b/groups/g", "Group a%b g", ""},
		{"colon", "/coord/v1/streams/a:b/groups/c:d", "Group a:b c:d", ""},
		{"letters of the world", "/coord/v1/streams/%EC%A3%BC%EB%AC%B8/groups/g", "Group 주문 g", ""},
		{"braces in a group", "/coord/v1/streams/a/groups/%7Bg%7D", "Group a {g}", ""},
		{"dots", "/coord/v1/streams/../groups/.", "Group .. .", ""},
		{"brace in a prefix", "/coord/v1/streams/a%7Bb/groups/g", "", "streamPrefix: must not contain { or }"},
		{"control character", "/coord/v1/streams/a%00b/groups/g", "", "streamPrefix: must not contain control characters"},
		{"line feed in a group", "/coord/v1/streams/a/groups/g%0A", "", "consumerGroup: must not contain control characters"},
		{"not UTF-8", "/coord/v1/streams/a%FFb/groups/g", "", "streamPrefix: must be valid UTF-8"},
		{"blank name", "/coord/v1/streams/%20/groups/g", "", "streamPrefix: must not be blank"},
		{"too long", "/coord/v1/streams/" + strings.Repeat("x", 201) + "/groups/g", "", "streamPrefix: is 201 bytes long, at most 200 are allowed"},
		{"longest", "/coord/v1/streams/" + strings.Repeat("x", 200) + "/groups/g", "Group " + strings.Repeat("x", 200) + " g", ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			f := &fake{}
			w := request{method: "GET", path: c.path, auth: as("reader")}.send(t, newAPI(t, f))
			if got := f.called(); got != c.called {
				t.Errorf("the coordinator was asked %q, want %q", got, c.called)
			}
			if c.says != "" {
				wantRefusal(t, w, 400, "INVALID_REQUEST", c.says)
			} else if w.Code != 200 {
				t.Errorf("status %d: %s", w.Code, w.Body)
			}
		})
	}
}

func TestHead(t *testing.T) {
	w := request{method: "HEAD", path: "/health/ready"}.send(t, newAPI(t, &fake{health: "DOWN"}))
	if w.Code != http.StatusServiceUnavailable {
		t.Errorf("status %d, want 503", w.Code)
	}
	w = request{method: "HEAD", path: "/coord/v1/streams"}.send(t, newAPI(t, &fake{}))
	if w.Code != http.StatusUnauthorized {
		t.Errorf("status %d, want 401: HEAD needs the role that GET needs", w.Code)
	}
}

func TestOtherBasePath(t *testing.T) {
	for _, base := range []string{"/api", "/a/b/c/", "/"} {
		h := newAPI(t, &fake{}, func(c *Config) { c.BasePath = base; c.AuthenticateMembers = true })
		prefix := strings.TrimSuffix(base, "/")
		w := request{method: "GET", path: prefix + "/streams", auth: as("reader")}.send(t, h)
		if w.Code != 200 {
			t.Errorf("base path %q: status %d", base, w.Code)
		}
		// The heartbeat's own form of a 403 goes with its route.
		w = request{method: "POST", path: prefix + "/streams/s/groups/g/members/m/heartbeat", auth: as("reader"), body: minimalBeat}.send(t, h)
		if w.Code != 403 || !strings.Contains(w.Body.String(), "GROUP_AUTHORIZATION_FAILED") {
			t.Errorf("base path %q: heartbeat answered %d %s", base, w.Code, w.Body)
		}
		if w := (request{method: "GET", path: "/health/live"}).send(t, h); w.Code != 200 {
			t.Errorf("base path %q: liveness answered %d", base, w.Code)
		}
	}
}
