package httpapi

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// reckless sends a request as it would come from the network: what no connection
// carries is left out.
func reckless(t *testing.T, h http.Handler, method, path, authorization, body string) *httptest.ResponseRecorder {
	t.Helper()
	q := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	q.Header["Authorization"] = []string{authorization}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, q)
	return w
}

// Whatever stands in the header, only a user's password or token lets anybody in, and
// nothing breaks.
func FuzzAuthorization(f *testing.F) {
	h := newAPI(f, &fake{}, func(c *Config) { c.Access.Tokens.Secret = "s3cret" })
	// The same one in every process that takes part.
	genuine := token{"reader", []Role{RoleRead}, time.Unix(1<<40, 0)}.sign([]byte("s3cret"))
	bearer := "Bearer " + genuine
	for _, seed := range []string{
		"", "Basic", "Basic ", as("reader"), as("admin"), basic("reader", ""), basic("", ""), basic("a:b", "c"), basic("reader\x00", "reads"), "Basic !!!", "Basic cmVhZGVy",
		"basic  " + as("reader")[len("Basic "):], bearer, "bearer " + bearer[len("Bearer "):], bearer + "x", "Bearer", "Bearer .", "Bearer a.b", "Bearer " + strings.Repeat("A", 5000), "Digest username=admin",
		token{"reader", []Role{RoleAdmin}, time.Unix(1<<40, 0)}.sign([]byte("guess")), "Bearer djEKYQoxCkFETUlO.AAAA",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, header string) {
		w := reckless(t, h, http.MethodGet, "/coord/v1/monitoring/session", header, "")
		switch w.Code {
		case http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests:
		case http.StatusOK:
			scheme, rest, _ := strings.Cut(header, " ")
			user, password, basic := (&http.Request{Header: http.Header{"Authorization": {header}}}).BasicAuth()
			known := basic && h.api.access.Load().check(user, password) != nil
			if !known && !(strings.EqualFold(scheme, "Bearer") && strings.TrimSpace(rest) == genuine) {
				t.Errorf("%q was let in: %s", header, w.Body)
			}
		default:
			t.Errorf("%q: %d %s", header, w.Code, w.Body)
		}
	})
}

// Whatever stands in the body of a login, it is answered, and only a user gets a token.
func FuzzLogin(f *testing.F) {
	h := newAPI(f, &fake{})
	for _, seed := range []string{
		"", "{}", "null", "[]", `"x"`, `{"username":"reader","password":"reads"}`, `{"username":"reader","password":"x"}`, `{"username":"","password":""}`,
		`{"USERNAME":"reader","Password":"reads"}`, `{"username":"reader","password":"reads","username":"admin"}`, `{"username":"reader","password":"reads"} x`,
		`{"username":"\ud800","password":"\u0000"}`, strings.Repeat("[", 9000), `{"username":1}`, "\xff", `{"username":"reader` + "\n" + `"}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		w := reckless(t, h, http.MethodPost, loginPath, "", body)
		switch w.Code {
		case http.StatusOK:
			var q credentials
			if q.decode([]byte(body)) != nil || h.api.access.Load().check(q.Username, q.Password) == nil {
				t.Errorf("%q got a token: %s", body, w.Body)
			}
		case http.StatusBadRequest, http.StatusUnauthorized, http.StatusRequestEntityTooLarge, http.StatusTooManyRequests:
		default:
			t.Errorf("%q: %d %s", body, w.Code, w.Body)
		}
	})
}
