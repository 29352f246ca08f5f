package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

const loginPath = "/coord/v1/auth/login"

// loginAs logs in with the password and returns the header of the token.
func loginAs(t testing.TB, h http.Handler, username string) (bearer string, answer loggedIn) {
	t.Helper()
	w := request{method: "POST", path: loginPath, auth: as(username)}.send(t, h)
	if w.Code != 200 {
		t.Fatalf("login: %d %s", w.Code, w.Body)
	}
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
		t.Fatal(err)
	}
	return "Bearer " + answer.AccessToken, answer
}

func sessionOf(t testing.TB, h http.Handler, auth string) (status int, body string) {
	t.Helper()
	w := request{method: "GET", path: "/coord/v1/monitoring/session", auth: auth}.send(t, h)
	return w.Code, w.Body.String()
}

func TestLogin(t *testing.T) {
	const right, wrong = `{"username":"writer","password":"writes"}`, `{"username":"writer","password":"reads"}`
	tests := []struct {
		name, body, auth string
		status           int
		roles            string
	}{
		{"by body", right, "", 200, `["WRITE"]`},
		{"by header", "", as("admin"), 200, `["ADMIN","MEMBER","MONITOR","READ","WRITE"]`},
		{"by header, blank name in the body", `{"username":" ","password":"x"}`, as("reader"), 200, `["READ"]`},
		{"by header, empty body", `{}`, as("reader"), 200, `["READ"]`},
		{"by header, null", `null`, as("reader"), 200, `["READ"]`},
		{"fields that are not known", `{"username":"writer","password":"writes","remember":true}`, "", 200, `["WRITE"]`},
		{"the body counts, right", right, "Basic nonsense", 200, `["WRITE"]`},
		{"the body counts, wrong", wrong, as("admin"), 401, ""},
		{"wrong password", wrong, "", 401, ""},
		{"no such user", `{"username":"root","password":"writes"}`, "", 401, ""},
		{"no password", `{"username":"writer"}`, "", 401, ""},
		{"nothing", "", "", 401, ""},
		{"wrong header", "", basic("admin", "guess"), 401, ""},
		{"other scheme", "", "Digest x", 401, ""},
		{"no JSON", `username=writer&password=writes`, "", 400, ""},
		{"a list", `[]`, "", 400, ""},
		{"number for a name", `{"username":1,"password":"writes"}`, "", 400, ""},
		{"something behind", right + right, "", 400, ""},
		{"too large", `{"username":"` + strings.Repeat("x", maxLoginBytes) + `"}`, "", 413, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := newAPI(t, &fake{})
			begun := time.Now()
			w := request{method: "POST", path: loginPath, auth: tt.auth, body: tt.body}.send(t, h)
			if w.Code != tt.status {
				t.Fatalf("status %d, want %d: %s", w.Code, tt.status, w.Body)
			}
			if strings.Contains(w.Body.String(), "writes") {
				t.Errorf("the password is answered: %s", w.Body)
			}
			if tt.status != 200 {
				if got := w.Header().Get("WWW-Authenticate"); (got != "") != (tt.status == 401) {
					t.Errorf("WWW-Authenticate: %q", got)
				}
				return
			}
			var fields map[string]json.RawMessage
			var answer loggedIn
			if err := json.Unmarshal(w.Body.Bytes(), &fields); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
				t.Fatal(err)
			}
			if len(fields) != 5 || string(fields["roles"]) != tt.roles || answer.TokenType != "Bearer" || answer.ExpiresInSeconds != 604800 {
				t.Errorf("answered %s", w.Body)
			}
			if life := answer.ExpiresAt.Sub(begun); life < DefaultTokenTTL || life > DefaultTokenTTL+time.Minute {
				t.Errorf("expires after %s", life)
			}
			if got := w.Header().Get("Cache-Control"); got != "no-store" {
				t.Errorf("Cache-Control: %q", got)
			}
			status, body := sessionOf(t, h, "bEARER "+answer.AccessToken)
			if status != 200 || !strings.Contains(body, `"roles":`+tt.roles) {
				t.Errorf("with the token: %d %s", status, body)
			}
		})
	}
}

// A token stands for the user's roles on all routes, until it expires.
func TestTokenServes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newAPI(t, &fake{}, func(c *Config) { c.AuthenticateMembers = true; c.Access.Tokens.TTL = time.Minute })
		bearer, answer := loginAs(t, h, "member")
		if answer.ExpiresInSeconds != 60 {
			t.Errorf("serves for %d s", answer.ExpiresInSeconds)
		}
		if w := (request{method: "POST", path: beatPath, auth: bearer, body: minimalBeat}).send(t, h); w.Code != 200 {
			t.Errorf("heartbeat: %d %s", w.Code, w.Body)
		}
		wantRefusal(t, request{method: "GET", path: "/coord/v1/streams", auth: bearer}.send(t, h), 403, "FORBIDDEN", `user "member" lacks the role READ`)
		time.Sleep(59 * time.Second)
		if w := (request{method: "POST", path: beatPath, auth: bearer, body: minimalBeat}).send(t, h); w.Code != 200 {
			t.Errorf("heartbeat after 59 s: %d %s", w.Code, w.Body)
		}
		time.Sleep(2 * time.Second)
		w := request{method: "POST", path: beatPath, auth: bearer, body: minimalBeat}.send(t, h)
		wantRefusal(t, w, 401, "UNAUTHORIZED", "expired")
		wantRefusal(t, request{method: "POST", path: loginPath, auth: bearer}.send(t, h), 401, "UNAUTHORIZED", "expired")
	})
}

// With the old secret beside the new one nobody has to log in again; without it all do.
func TestReplacingTheSecret(t *testing.T) {
	h := newAPI(t, &fake{}, func(c *Config) { c.Access.Tokens.Secret = "one" })
	first, _ := loginAs(t, h, "reader")
	replace := func(tokens Tokens, users []User) {
		t.Helper()
		if err := h.SetAccess(Access{Users: users, Tokens: tokens}); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(step string, auth string, want int) {
		t.Helper()
		if status, body := sessionOf(t, h, auth); status != want {
			t.Errorf("%s: %d, want %d: %s", step, status, want, body)
		}
	}
	replace(Tokens{Secret: "two", PreviousSecret: "one"}, testUsers)
	second, _ := loginAs(t, h, "reader")
	expect("signed with the previous secret", first, 200)
	expect("signed with the new secret", second, 200)
	replace(Tokens{Secret: "two"}, testUsers)
	expect("the previous secret is gone", first, 401)
	expect("the new secret stays", second, 200)
	replace(Tokens{Secret: "two"}, testUsers[1:])
	expect("the user is gone", second, 401)
	expect("so is the password", as("reader"), 401)
	replace(Tokens{Secret: "two"}, []User{{Username: "reader", Password: "other", Roles: []Role{RoleMember}}})
	expect("the role is gone", second, 401)
	if err := h.SetAccess(Access{Users: []User{{}}}); err == nil {
		t.Error("a user without a name was taken")
	}
	if w := (request{method: "POST", path: loginPath, auth: basic("reader", "other")}).send(t, h); w.Code != 200 {
		t.Errorf("after a refused change: %d %s", w.Code, w.Body)
	}
}

// Without a secret every process has one of its own, that survives a change of users.
func TestOwnSecret(t *testing.T) {
	one, two := newAPI(t, &fake{}), newAPI(t, &fake{})
	bearer, _ := loginAs(t, one, "reader")
	if status, _ := sessionOf(t, two, bearer); status != 401 {
		t.Errorf("another process answers %d", status)
	}
	if err := one.SetAccess(Access{Users: testUsers[:1]}); err != nil {
		t.Fatal(err)
	}
	if status, _ := sessionOf(t, one, bearer); status != 200 {
		t.Errorf("after a change of users: %d", status)
	}
}

func TestAccessValidate(t *testing.T) {
	tests := []struct {
		access Access
		want   string
	}{
		{Access{}, ""},
		{Access{Tokens: Tokens{TTL: time.Millisecond}}, "tokens: TTL is 1ms, must be between 1s and 8760h0m0s"},
		{Access{Tokens: Tokens{TTL: -time.Hour}}, "tokens: TTL is -1h0m0s, must be between 1s and 8760h0m0s"},
		{Access{RateLimit: RateLimit{MutationsPerMinute: -1}}, "rate limit: MutationsPerMinute is -1, must not be negative"},
		{Access{Users: make([]User, MaxUsers+1)}, "users: has 1001 entries, at most 1000 are allowed"},
		{Access{Users: []User{{Username: "a\nb", Password: "p", Roles: []Role{RoleRead}}}}, "users[0].username: must not contain control characters"},
		{Access{Users: []User{{Username: strings.Repeat("x", 201), Password: "p", Roles: []Role{RoleRead}}}}, "users[0].username: is 201 bytes long, at most 200 are allowed"},
	}
	for _, tt := range tests {
		got := ""
		if err := tt.access.Validate(); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("got  %q\nwant %q", got, tt.want)
		}
	}
}

// Whoever prints an Access sees no secret.
func TestAccessHidesSecrets(t *testing.T) {
	a := Access{
		Users:  []User{{Username: "ops", Password: "canary-1", Roles: []Role{RoleRead}}},
		Tokens: Tokens{Secret: "canary-2", PreviousSecret: "canary-3", TTL: time.Hour},
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		if text := fmt.Sprintf(verb, a); strings.Contains(text, "canary") {
			t.Errorf("%s shows %s", verb, text)
		}
	}
}

// Users are replaced while requests come: each request sees the old ones or the new ones.
func TestAccessIsReplacedUnderLoad(t *testing.T) {
	h := newAPI(t, &fake{})
	one := Access{Users: testUsers, Tokens: Tokens{Secret: "s"}}
	two := Access{Users: testUsers[:1], Tokens: Tokens{Secret: "s"}}
	if err := h.SetAccess(one); err != nil {
		t.Fatal(err)
	}
	bearer, _ := loginAs(t, h, "admin")
	var asking sync.WaitGroup
	stop := make(chan struct{})
	for _, header := range []string{as("reader"), as("admin"), bearer} {
		asking.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				status, body := sessionOf(t, h, header)
				if status != 200 && (status != 401 || header == as("reader")) {
					t.Errorf("%d %s", status, body)
					return
				}
			}
		})
	}
	for range 200 {
		for _, access := range []Access{two, one} {
			if err := h.SetAccess(access); err != nil {
				t.Error(err)
			}
		}
	}
	close(stop)
	asking.Wait()
}
