package httpapi

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gin-gonic/gin"
)

// needsOf says which roles a route asks for by the documented rule and not by the
// table of routes; nobody for an open one. Whatever is added to the API falls under it.
func needsOf(method, path string, authenticateMembers bool) permission {
	below, api := strings.CutPrefix(path, DefaultBasePath)
	switch {
	case !api, below == loginRoute:
		return open
	case below == heartbeatRoute && !authenticateMembers:
		return open
	case below == heartbeatRoute:
		return mayBeMember
	case strings.HasSuffix(below, "/producer-routing"):
		return mayRead | mayBeMember
	case method == http.MethodGet || method == http.MethodHead:
		return mayRead
	}
	return mayWrite
}

// openPaths are all routes outside the base path: they are known, so that none comes
// to be open by accident.
var openPaths = regexp.MustCompile(`^/(health/(live|ready)|actuator/(health(/(liveness|readiness))?|info|prometheus)|metrics|openapi\.json|v3/api-docs|docs|scalar)$`)

var pathParameter = regexp.MustCompile(`:\w+|\*\w+`)

// concrete fills a router's pattern in.
func concrete(pattern string) string {
	return pathParameter.ReplaceAllStringFunc(pattern, func(name string) string {
		switch name {
		case ":streamPrefix":
			return "orders"
		case ":consumerGroup":
			return "billing"
		case ":memberId":
			return "m"
		}
		return "0"
	})
}

// Six kinds of callers on every route that the router knows.
func TestEveryCallerOnEveryRoute(t *testing.T) {
	for _, authenticate := range []bool{false, true} {
		t.Run(fmt.Sprintf("members=%t", authenticate), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { everyCallerOnEveryRoute(t, authenticate) })
		})
	}
}

func everyCallerOnEveryRoute(t *testing.T, authenticate bool) {
	f := &fake{}
	h := newAPI(t, f, func(c *Config) { c.AuthenticateMembers = authenticate; c.Access.Tokens.TTL = time.Second })
	expired, _ := loginAs(t, h, "admin")
	time.Sleep(3 * time.Second)
	callers := []struct {
		name, header string
		may          permission
		says         string
	}{
		{"nobody", "", 0, "credentials are missing"},
		{"bad password", basic("admin", "guess"), 0, "the user name or the password is wrong"},
		{"expired token", expired, 0, "the token has expired"},
		{"MEMBER", as("member"), mayBeMember, ""},
		{"READ", as("reader"), mayRead, ""},
		{"WRITE", as("writer"), mayRead | mayWrite, ""},
	}
	routes := h.router.Routes()
	slices.SortFunc(routes, func(a, b gin.RouteInfo) int { return strings.Compare(a.Path+a.Method, b.Path+b.Method) })
	if len(routes) < len(routeCases) {
		t.Fatalf("the router knows %d routes, fewer than the %d that are tested", len(routes), len(routeCases))
	}
	tried := 0
	for _, r := range routes {
		needed := needsOf(r.Method, r.Path, authenticate)
		if needed == open && !strings.HasPrefix(r.Path, DefaultBasePath) && !openPaths.MatchString(r.Path) {
			t.Errorf("%s %s is open to everybody, and not listed as such", r.Method, r.Path)
		}
		for _, caller := range callers {
			q := request{method: r.Method, path: concrete(r.Path), auth: caller.header, body: bodyFor(r.Path)}
			asked := f.called()
			w := q.send(t, h)
			tried++
			at := fmt.Sprintf("%s %s by %s: %d %.200s", r.Method, r.Path, caller.name, w.Code, w.Body)
			switch {
			case r.Path == DefaultBasePath+loginRoute:
				// It asks for credentials itself.
				if want := map[bool]int{true: 200, false: 401}[caller.may != 0]; w.Code != want {
					t.Errorf("%s, want %d", at, want)
				}
			case needed == open || caller.may&needed != 0:
				if w.Code == 401 || w.Code == 403 || w.Code == 429 {
					t.Errorf("%s, want it let in", at)
				}
			case caller.may == 0:
				if w.Code != 401 || w.Header().Get("WWW-Authenticate") == "" || !strings.Contains(w.Body.String(), caller.says) {
					t.Errorf("%s, want 401 with %q", at, caller.says)
				}
			case w.Code != 403:
				t.Errorf("%s, want 403", at)
			}
			if (w.Code == 401 || w.Code == 403) && f.called() != asked {
				t.Errorf("%s, and the coordinator was asked", at)
			}
		}
	}
	t.Logf("%d callers on %d routes: %d requests", len(callers), len(routes), tried)
}

// bodyFor is a body that the route may take.
func bodyFor(path string) string {
	switch {
	case strings.HasSuffix(path, "/heartbeat"):
		return minimalBeat
	case strings.HasSuffix(path, loginRoute):
		return ""
	}
	return `{"initialShardCount":4,"targetShardCount":4,"requestedBy":"ops","reason":"done"}`
}
