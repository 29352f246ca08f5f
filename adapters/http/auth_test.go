package httpapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"testing"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// Every kind of caller against every route, members' authentication off and on.
func TestWhoMayCallWhat(t *testing.T) {
	callers := map[string]struct {
		header string
		may    permission
	}{
		"nobody":             {"", 0},
		"wrong password":     {basic("admin", "guess"), 0},
		"another's password": {basic("reader", "writes"), 0},
		"unknown user":       {basic("root", "reads"), 0},
		"empty password":     {basic("admin", ""), 0},
		"no base64":          {"Basic !!!", 0},
		"no colon":           {"Basic YWRtaW4=", 0},
		"other scheme":       {"Digest username=admin", 0},
		"bearer":             {"Bearer abc.def", 0},
		"reader":             {as("reader"), mayRead},
		"monitor":            {as("monitor"), mayRead},
		"writer":             {as("writer"), mayRead | mayWrite},
		"member":             {as("member"), mayBeMember},
		"admin":              {as("admin"), mayRead | mayWrite | mayBeMember},
	}
	for _, authenticate := range []bool{false, true} {
		needs := map[string]permission{}
		a := &api{config: Config{AuthenticateMembers: authenticate}.withDefaults()}
		for _, r := range a.routes() {
			needs[r.method+" "+r.path] = r.needs
		}
		for _, c := range routeCases {
			needed, found := needs[c.method+" "+DefaultBasePath+c.route]
			if !found {
				needed = needs[c.method+" "+c.route]
			}
			for name, caller := range callers {
				t.Run(fmt.Sprintf("members=%t/%s %s/%s", authenticate, c.method, c.route, name), func(t *testing.T) {
					f := &fake{}
					q := c.request
					q.auth = caller.header
					w := q.send(t, newAPI(t, f, func(c *Config) { c.AuthenticateMembers = authenticate }))
					switch {
					case needed == open || caller.may&needed != 0:
						if w.Code != c.status {
							t.Errorf("status %d, want %d: %s", w.Code, c.status, w.Body)
						}
						return
					case caller.may == 0:
						wantRefusal(t, w, http.StatusUnauthorized, "UNAUTHORIZED", "")
						if got := w.Header().Get("WWW-Authenticate"); got != `Basic realm="redis-stream-coordinator"` {
							t.Errorf("WWW-Authenticate: %q", got)
						}
					case c.route == heartbeatRoute:
						if w.Code != http.StatusForbidden {
							t.Errorf("status %d, want 403", w.Code)
						}
					default:
						wantRefusal(t, w, http.StatusForbidden, "FORBIDDEN", "")
					}
					if f.called() != "" {
						t.Errorf("the coordinator was asked %q", f.called())
					}
				})
			}
		}
	}
}

// The requirement of each route, written down a second time: a slip in the
// table must not pass because the test reads the same table.
func TestRouteRequirements(t *testing.T) {
	const routing = mayRead | mayBeMember
	want := map[string]permission{
		"POST " + heartbeatRoute:                        mayBeMember,
		"POST /auth/login":                              open,
		"GET /streams":                                  mayRead,
		"POST " + streamRoute:                           mayWrite,
		"GET " + streamRoute:                            mayRead,
		"DELETE " + streamRoute:                         mayWrite,
		"POST " + groupRoute:                            mayWrite,
		"GET " + groupRoute:                             mayRead,
		"DELETE " + groupRoute:                          mayWrite,
		"GET " + groupRoute + "/producer-routing":       routing,
		"GET /monitoring/session":                       mayRead,
		"GET /monitoring/health":                        mayRead,
		"GET /monitoring/compatibility":                 mayRead,
		"GET /monitoring/groups":                        mayRead,
		"GET /monitoring" + groupRoute:                  mayRead,
		"GET /monitoring" + groupRoute + "/members":     mayRead,
		"GET /monitoring" + groupRoute + "/assignments": mayRead,
		"GET /health/live":                              open,
		"GET /health/ready":                             open,
		"GET /actuator/health":                          open,
		"GET /actuator/health/liveness":                 open,
		"GET /actuator/health/readiness":                open,
	}
	maps.Copy(want, inspectionNeeds)
	maps.Copy(want, reshardNeeds)
	a := &api{config: Config{AuthenticateMembers: true}.withDefaults()}
	for _, r := range a.routes() {
		key := r.method + " " + trimBase(r.path)
		w, listed := want[key]
		if !listed {
			t.Errorf("%s is not listed here", key)
		}
		if w != r.needs {
			t.Errorf("%s needs %q, want %q", key, r.needs, w)
		}
	}
	a.config.AuthenticateMembers = false
	for _, r := range a.routes() {
		if trimBase(r.path) == heartbeatRoute && r.needs != open {
			t.Errorf("a heartbeat needs %q although members are not authenticated", r.needs)
		}
	}
}

// A name inside a path opens nothing: exemptions go by route.
func TestNamesDoNotOpenRoutes(t *testing.T) {
	for _, path := range []string{
		"/coord/v1/streams/members/groups/heartbeat",
		"/coord/v1/streams/health/groups/live",
		"/coord/v1/streams/members",
		"/coord/v1/monitoring/streams/actuator/groups/health",
	} {
		for _, method := range []string{"GET", "POST", "DELETE"} {
			f := &fake{}
			w := request{method: method, path: path, body: createBody}.send(t, newAPI(t, f))
			if w.Code != 401 && w.Code != 405 {
				t.Errorf("%s %s without credentials: status %d", method, path, w.Code)
			}
			if f.called() != "" {
				t.Errorf("%s %s without credentials: the coordinator was asked %q", method, path, f.called())
			}
		}
	}
}

// The body of a refused heartbeat is an answer to a heartbeat too.
func TestForbiddenHeartbeat(t *testing.T) {
	h := newAPI(t, &fake{}, func(c *Config) { c.AuthenticateMembers = true })
	w := request{method: "POST", path: beatPath, auth: as("writer"), body: minimalBeat}.send(t, h)
	if w.Code != http.StatusForbidden {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	var response protocol.HeartbeatResponse
	if err := json.Unmarshal(w.Body.Bytes(), &response); err != nil {
		t.Fatal(err)
	}
	if response.Status != "GROUP_AUTHORIZATION_FAILED" || response.MemberID != "m" || response.HeartbeatIntervalMs != 3000 ||
		response.Assignment.AssignedShards == nil || response.Assignment.PendingShards == nil {
		t.Errorf("answer %+v", response)
	}
	var refusal protocol.ErrorBody
	if err := json.Unmarshal(w.Body.Bytes(), &refusal); err != nil {
		t.Fatal(err)
	}
	if refusal.ErrorCode != "FORBIDDEN" || refusal.Message != `user "writer" lacks the role MEMBER` {
		t.Errorf("refusal %+v", refusal)
	}
}

// With open heartbeats the header is not looked at, a wrong one included.
func TestOpenHeartbeatIgnoresCredentials(t *testing.T) {
	w := request{method: "POST", path: beatPath, auth: "Basic nonsense", body: minimalBeat}.send(t, newAPI(t, &fake{}))
	if w.Code != 200 {
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
}

func TestSchemeInAnyCase(t *testing.T) {
	for _, scheme := range []string{"basic", "BASIC"} {
		header := scheme + as("reader")[len("Basic"):]
		if w := (request{method: "GET", path: "/coord/v1/streams", auth: header}).send(t, newAPI(t, &fake{})); w.Code != 200 {
			t.Errorf("%s: status %d", scheme, w.Code)
		}
	}
}

func TestSessionOfTheAdministrator(t *testing.T) {
	w := request{method: "GET", path: "/coord/v1/monitoring/session", auth: as("admin")}.send(t, newAPI(t, &fake{}))
	want := `{"authenticated":true,"username":"admin","roles":["ADMIN","MEMBER","MONITOR","READ","WRITE"]}`
	if w.Body.String() != want {
		t.Errorf("got  %s\nwant %s", w.Body, want)
	}
}

func TestValidateUsers(t *testing.T) {
	good := User{Username: "a", Password: "p", Roles: []Role{RoleRead}}
	cases := []struct {
		name  string
		users []User
		want  string
	}{
		{"none", nil, ""},
		{"good", []User{good}, ""},
		{"blank name", []User{{Username: " ", Password: "p", Roles: good.Roles}}, "users[0].username: must not be blank"},
		{"colon", []User{{Username: "a:b", Password: "p", Roles: good.Roles}}, "users[0].username: must not contain a colon"},
		{"twice", []User{good, good}, `users[1].username: "a" is listed twice`},
		{"no password", []User{{Username: "a", Roles: good.Roles}}, "users[0].password: must not be empty"},
		{"no role", []User{{Username: "a", Password: "p"}}, "users[0].roles: at least one of ADMIN, MEMBER, MONITOR, READ, WRITE is needed"},
		{"unknown role", []User{{Username: "a", Password: "p", Roles: []Role{"read"}}}, `users[0].roles: "read" is not one of ADMIN, MEMBER, MONITOR, READ, WRITE`},
		{"all complaints", []User{{}, {Username: "b", Password: "p", Roles: []Role{"X"}}},
			"users[0].username: must not be blank\nusers[0].password: must not be empty\nusers[0].roles: at least one of ADMIN, MEMBER, MONITOR, READ, WRITE is needed\n" +
				`users[1].roles: "X" is not one of ADMIN, MEMBER, MONITOR, READ, WRITE`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got := ""
			if err := ValidateUsers(c.users); err != nil {
				got = err.Error()
			}
			if got != c.want {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
}

func TestNewRefusesConfig(t *testing.T) {
	for _, base := range []string{"coord", "/a b", "/:x", "/*", "/a//b"} {
		if _, err := New(Config{BasePath: base}, &fake{}); err == nil {
			t.Errorf("base path %q was taken", base)
		}
	}
	if _, err := New(Config{Access: Access{Users: []User{{}}}}, &fake{}); err == nil {
		t.Error("a user without a name was taken")
	}
	if _, err := New(Config{Timings: protocol.Timings{Lease: 1}}, &fake{}); err == nil {
		t.Error("a lease of 1ns was taken")
	}
}

// Without users nothing that needs a role is open.
func TestNoUsersNoAccess(t *testing.T) {
	h, err := New(Config{}, &fake{})
	if err != nil {
		t.Fatal(err)
	}
	for _, header := range []string{"", basic("", ""), basic("admin", "password")} {
		if w := (request{method: "GET", path: "/coord/v1/streams", auth: header}).send(t, h); w.Code != 401 {
			t.Errorf("%q: status %d, want 401", header, w.Code)
		}
	}
}
