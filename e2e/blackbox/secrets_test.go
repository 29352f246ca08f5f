package blackbox

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/redis-stream-coordinator/rsc/e2e/faultkit"
	"github.com/redis-stream-coordinator/rsc/e2e/rsctest"
)

// canary begins every secret of a test, so that one that got out is found.
const canary = "c4n4ry-"

// secrets is a settings file with all the secrets that there can be.
//
//nolint:gosec // they are canaries
const secrets = `
log: {level: debug}
coordinator:
  api:
    admin-password: c4n4ry-of-the-administrator
    token-secret: c4n4ry-which-signs-tokens
    token-secret-previous: c4n4ry-which-signed-tokens
    authenticate-member-api: true
    users:
      - {username: admin, password: c4n4ry-of-admin, roles: [ADMIN]}
      - {username: reader, password: c4n4ry-of-reader, roles: [READ]}
  audit: {sink: redis}
  redis:
    url: redis://coordinator:c4n4ry-in-the-url@%s/0
    password: c4n4ry-of-redis
    sentinel: {password: c4n4ry-of-sentinel}
  streams:
    redis: {password: c4n4ry-of-the-streams}
`

// leaks finds secrets in what comes out of a coordinator.
type leaks struct {
	t *testing.T
	// tokens are secrets that come into being on the way.
	tokens []string
}

// search fails the test for every secret in a text, as it is or in base64.
func (l *leaks) search(where, text string) {
	l.t.Helper()
	for _, secret := range append([]string{canary, base64.StdEncoding.EncodeToString([]byte("admin:" + canary))[:16]}, l.tokens...) {
		if at := strings.Index(text, secret); at >= 0 {
			l.t.Errorf("%s shows a secret: …%.120q…", where, text[max(0, at-80):])
		}
	}
}

// A real coordinator shows none of its secrets, and none that callers put where they do
// not belong: not in its log, its audit, its answers, or its settings printed.
func TestSecretsStayInside(t *testing.T) {
	redis := startRedis(t, faultkit.Options{})
	for _, user := range []string{canary + "in-the-url", canary + "of-redis"} {
		if err := redis.Client.Do(t.Context(), "ACL", "SETUSER", "coordinator", "on", ">"+user, "~*", "&*", "+@all").Err(); err != nil {
			t.Fatal(err)
		}
	}
	l := &leaks{t: t}
	text := fmt.Sprintf(secrets, strings.TrimPrefix(redis.url, "redis://"))
	file := newSettingsFile(t, text)

	printed, err := exec.CommandContext(t.Context(), rsctest.Program(t), "server", "--config", file.path, "--print-config").CombinedOutput()
	if err != nil {
		t.Fatalf("print the settings: %v\n%s", err, printed)
	}
	if !bytes.Contains(printed, []byte("token-secret: '********'")) {
		t.Errorf("the settings are not printed:\n%s", printed)
	}
	l.search("--print-config", string(printed))

	c := startCoordinator(t, "--config", file.path)
	send := func(want int, method, path, auth, body string) string {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), method, c.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if auth != "" {
			request.Header.Set("Authorization", auth)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = response.Body.Close() }()
		answer, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		if response.StatusCode != want {
			t.Errorf("%s %s: %d, want %d: %s", method, path, response.StatusCode, want, answer)
		}
		if !strings.HasSuffix(path, "/auth/login") || want != http.StatusOK {
			l.search("the answer to "+method+" "+path, string(answer)+fmt.Sprint(response.Header))
		}
		return string(answer)
	}
	basic := func(user, password string) string {
		return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
	}
	admin := basic("admin", canary+"of-admin")
	const login, list = "/coord/v1/auth/login", "/coord/v1/streams"
	var answer struct{ AccessToken string }
	if err := json.Unmarshal([]byte(send(200, "POST", login, admin, "")), &answer); err != nil {
		t.Fatal(err)
	}
	l.tokens = append(l.tokens, answer.AccessToken)
	send(200, "POST", login, "", `{"username":"reader","password":"c4n4ry-of-reader"}`)
	send(401, "POST", login, "", `{"username":"admin","password":"c4n4ry-that-is-wrong"}`)
	send(401, "POST", login, "", `{"username":"c4n4ry-in-the-wrong-field","password":"x"}`)
	send(400, "POST", login, "", `{"username":"admin","password":"c4n4ry-and-no-end`)
	send(400, "POST", login, "", `{"username":"admin","password":["c4n4ry-in-a-list"]}`)
	send(401, "GET", list, "Bearer "+answer.AccessToken+"x", "")
	send(401, "GET", list, "Bearer c4n4ry-no-token", "")
	send(401, "GET", list, "c4n4ry-without-a-scheme", "")
	send(401, "GET", list, basic("c4n4ry-as-a-name", "x"), "")
	send(200, "GET", list+"?access_token=c4n4ry-as-a-parameter", "Bearer "+answer.AccessToken, "")
	send(201, "POST", list+"/orders?password=c4n4ry-as-a-parameter", admin, `{"initialShardCount":1,"requestedBy":"test","password":"c4n4ry-in-a-field"}`)
	send(409, "POST", list+"/orders", admin, `{"requestedBy":"test"}`)
	send(400, "POST", list+"/pay", admin, `{"requestedBy":"test","initialShardCount":"c4n4ry-for-a-number"}`)
	send(403, "POST", list+"/pay", basic("reader", canary+"of-reader"), `{"requestedBy":"c4n4ry-by-one-who-may-not"}`)
	send(401, "POST", list+"/pay", basic("admin", canary+"that-is-wrong"), `{"requestedBy":"c4n4ry-by-nobody"}`)
	send(401, "POST", list+"/orders/groups/billing/members/m/heartbeat", basic("m", canary+"of-a-member"), `{}`)

	// The tools, with a password that is wrong, and one at which a proxy would stumble.
	for _, password := range []string{canary + "of-the-tools", canary + "with \r\n and \xff"} {
		tool := faultkit.Run(t, "rsc consume", []string{"RSC_PASSWORD=" + password}, rsctest.Program(t),
			"consume", "--stream", "orders", "--group", "billing", "--coordinator", c.URL, "--redis", redis.url, "--log-level", "debug")
		faultkit.Eventually(t, startTimeout, "the tool is refused", func() bool { return strings.Contains(tool.Log(), "UNAUTHORIZED") })
		tool.Kill()
		l.search("the log of rsc consume", tool.Log())
	}

	for _, broken := range []string{
		strings.Replace(text, "redis://coordinator:", "redis://coordinator:%zz", 1),
		strings.Replace(text, "audit: {sink: redis}", "audit: [c4n4ry", 1),
		strings.Replace(text, "admin-password: ", "admin-password: [", 1),
		strings.Replace(text, "token-secret: ", "token-secret: 7 #", 1),
	} {
		file.write(broken)
		c.reload("cannot be used, so nothing was changed")
	}
	file.write(strings.Replace(text, "token-secret: ", "token-secret: c4n4ry-new-", 1))
	c.reload("the settings were read again")
	send(401, "GET", list, "Bearer "+answer.AccessToken, "")
	c.Proc.Stop(startTimeout)
	l.search("the log", c.Proc.Log())

	keys, err := redis.Client.Keys(t.Context(), "redis-stream:coord:*admin:audit").Result()
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(keys)
	if want := []string{"redis-stream:coord:admin:audit", "redis-stream:coord:{orders}:admin:audit", "redis-stream:coord:{pay}:admin:audit"}; !slices.Equal(keys, want) {
		t.Errorf("audited in %q, want %q", keys, want)
	}
	for _, key := range keys {
		entries, err := redis.Client.LRange(t.Context(), key, 0, -1).Result()
		if err != nil {
			t.Fatal(err)
		}
		l.search(key, strings.Join(entries, "\n"))
	}

	// A start that fails says why and shows nothing either.
	file.write(strings.Replace(text, "password: c4n4ry-of-redis", "password: c4n4ry-that-is-wrong", 1))
	p := faultkit.Run(t, "rsc server", nil, rsctest.Program(t), "server", "--config", file.path, "--address", "127.0.0.1:0")
	if code := p.Wait(startTimeout); code == 0 {
		t.Error("it started with a wrong password")
	}
	l.search("the log of a failed start", p.Log())
}
