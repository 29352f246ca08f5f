package config

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs (go test -update rewrites it); got\n%s", name, got)
	}
}

// The shipped file, as it is used with a Redis and passwords in the environment.
func TestPrintShippedFile(t *testing.T) {
	environ := []string{
		"REDIS_STREAM_COORDINATOR_ADMIN_PASSWORD=canary-1", "REDIS_STREAM_COORDINATOR_TOKEN_SECRET=canary-6", "REDIS_STREAM_COORDINATOR_MEMBER_PASSWORD=canary-2", "REDIS_PASSWORD=canary-3",
		"REDIS_URL=redis://coordinator:canary-4@redis.example:6380/2", "COORDINATOR_ID=c-1", "COORDINATOR_STREAMS_REDIS_SENTINEL_MASTER=main", "COORDINATOR_STREAMS_REDIS_SENTINEL_ADDRESSES=s1:26379,s2:26379", "COORDINATOR_STREAMS_REDIS_SENTINEL_PASSWORD=canary-5",
		"COORDINATOR_STREAMS_DECLARED_0_PREFIX=orders", "COORDINATOR_STREAMS_DECLARED_0_GROUPS=billing",
	}
	c, warnings, err := Load(Sources{File: "../../rsc.yaml", Environ: environ})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := c.Print(&out); err != nil {
		t.Fatal(err)
	}
	golden(t, "print.yaml", out.String())
	if strings.Contains(out.String()+fmt.Sprint(warnings), "canary") {
		t.Error("a secret is printed")
	}
}

// The shipped file says what the defaults are.
func TestShippedFileIsTheDefault(t *testing.T) {
	shipped, warnings, err := Load(Sources{File: "../../rsc.yaml"})
	if err != nil {
		t.Fatal(err)
	}
	if len(warnings) != 3 {
		t.Errorf("warnings %q", warnings)
	}
	plain, _, err := Load(Sources{})
	if err != nil {
		t.Fatal(err)
	}
	users := shipped.Coordinator.API.Users
	if len(users) != 1 || users[0].Username != "admin" || users[0].Password != DefaultPassword {
		t.Errorf("users %+v", users)
	}
	shipped.Coordinator.API.Users = nil
	if got, want := fmt.Sprintf("%+v", shipped), fmt.Sprintf("%+v", plain); got != want {
		t.Errorf("the shipped file gives\n%s\nthe defaults are\n%s", got, want)
	}
}

// What is printed can be read again and means the same.
func TestPrintedIsRead(t *testing.T) {
	first, _, complaint := load(t, "coordinator: {member-lease-ttl: 90s, rebalance-timeout: 2h, api: {users: [{username: a, password: p, roles: [READ, MEMBER]}]}, streams: {declared: [{prefix: '007', shards: 2}]}}", nil)
	if complaint != "" {
		t.Fatal(complaint)
	}
	var out bytes.Buffer
	if err := first.Print(&out); err != nil {
		t.Fatal(err)
	}
	second, _, complaint := load(t, out.String(), nil)
	if complaint != "" {
		t.Fatal(complaint)
	}
	if got, want := fmt.Sprintf("%+v", second), fmt.Sprintf("%+v", first); got != want {
		t.Errorf("read back as\n%s\nwas\n%s", got, want)
	}
}

func TestSecretsStaySecret(t *testing.T) {
	const address = "redis://user:canary@host/1" //nolint:gosec // no credentials, a canary
	s, u := Secret("canary"), URL(address)
	c := Config{}
	c.Coordinator.API.AdminPassword, c.Coordinator.Redis.URL = s, u
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "s", s, "u", u, "c", c)
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "s", s, "u", u, "c", c)
	text := log.String()
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
		text += fmt.Sprintf(verb, s) + fmt.Sprintf(verb, u) + fmt.Sprintf(verb, c) + fmt.Sprintf(verb, []Secret{s})
	}
	if strings.Contains(text, "canary") || strings.Contains(text, "63616e617279") {
		t.Errorf("shown: %s", text)
	}
	if !strings.Contains(text, "redis://user:xxxxx@host/1") {
		t.Errorf("the URL is not shown: %s", text)
	}
	if s.Reveal() != "canary" || u.Reveal() != address {
		t.Error("the secret is lost")
	}
}

func TestDurations(t *testing.T) {
	cases := map[string]time.Duration{
		"3s": 3 * time.Second, "1m30s": 90 * time.Second, "500ms": 500 * time.Millisecond, "7d": 7 * 24 * time.Hour, "1d12h": 36 * time.Hour, "0s": 0, "2h": 2 * time.Hour, "1h0m5s": time.Hour + 5*time.Second,
	}
	for text, want := range cases {
		got, err := parseDuration(text)
		if err != nil || got != want {
			t.Errorf("%s: %s %v, want %s", text, got, err, want)
		}
		again, err := parseDuration(formatDuration(want))
		if err != nil || again != want {
			t.Errorf("%s is printed as %s", text, formatDuration(want))
		}
	}
	for _, text := range []string{"", "3", "d", "-1d", "1d-2h", "1.5d", "999999999d", "106751d24h", "1dd", "3 s", "x"} {
		if d, err := parseDuration(text); err == nil {
			t.Errorf("%q was read as %s", text, d)
		}
	}
	if got := formatDuration(2 * time.Hour); got != "2h" {
		t.Errorf("2h is printed as %s", got)
	}
}

func TestPlaceholders(t *testing.T) {
	environ := map[string]string{"A": "a", "B": "${A}", "EMPTY": ""}
	cases := []struct{ text, want, complaint string }{
		{"plain", "plain", ""},
		{"${A}", "a", ""},
		{"x${A}y${A}z", "xayaz", ""},
		{"${NONE:}", "", ""},
		{"${NONE:d}", "d", ""},
		{"${EMPTY:d}", "d", ""},
		{"${NONE:redis://h:6379/0}", "redis://h:6379/0", ""},
		{"${NONE:${A}}", "a", ""},
		{"${NONE:${NONE:${A}}}", "a", ""},
		{"${NONE:{x}}", "{x}", ""},
		{"${B}", "${A}", ""}, // what the environment says is not read again
		{"$${A}", "${A}", ""},
		{"$A $ {A}", "$A $ {A}", ""},
		{"${NONE}", "", "needs the environment variable NONE"},
		{"${EMPTY}", "", "needs the environment variable EMPTY"},
		{"${", "", "without its }"},
		{"${A", "", "without its }"},
		{"${}", "", "without the name"},
		{"${a b}", "", "without the name"},
		{"${9}", "", "without the name"},
		{strings.Repeat("${N:", 9) + "x" + strings.Repeat("}", 9), "", "too deep"},
	}
	for _, c := range cases {
		got, err := expand(c.text, environ)
		if c.complaint != "" {
			if err == nil || !strings.Contains(err.Error(), c.complaint) {
				t.Errorf("%s: %q %v, want the complaint %q", c.text, got, err, c.complaint)
			}
			continue
		}
		if err != nil || got != c.want {
			t.Errorf("%s: %q %v, want %q", c.text, got, err, c.want)
		}
	}
}

func FuzzExpand(f *testing.F) {
	f.Add("${A:${B:c}}")
	f.Add("$${A}${")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := expand(text, map[string]string{"A": "a"})
		if err == nil && !strings.Contains(text, "${") && got != text {
			t.Errorf("%q became %q", text, got)
		}
	})
}
