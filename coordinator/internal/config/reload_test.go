package config

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestTakeOver(t *testing.T) {
	current, _, complaint := load(t, "coordinator: {api: {users: [{username: a, password: p, roles: [READ]}]}}", nil)
	if complaint != "" {
		t.Fatal(complaint)
	}
	next, _, complaint := load(t, "log: {level: debug, format: json}\n"+
		"coordinator: {routing-lease: 1m, limits: {max-shards: 8}, streams: {declared: [{prefix: orders}]},"+
		" api: {rate-limit: {enabled: true}, token-secret: 0123456789abcdef, users: [{username: a, password: q, roles: [READ]}]}}", nil)
	if complaint != "" {
		t.Fatal(complaint)
	}
	changed, left := current.TakeOver(&next)
	if want := []string{"log.level", "coordinator.api.users", "coordinator.api.token-secret", "coordinator.api.rate-limit.enabled", "coordinator.limits.max-shards"}; !slices.Equal(changed, want) {
		t.Errorf("changed %q, want %q", changed, want)
	}
	if want := []string{"log.format", "coordinator.routing-lease", "coordinator.streams.declared"}; !slices.Equal(left, want) {
		t.Errorf("left %q, want %q", left, want)
	}
	if current.Log.Level != "debug" || current.Log.Format != "auto" || current.Coordinator.RoutingLease != 30*time.Second || current.Coordinator.API.Users[0].Password.Reveal() != "q" {
		t.Errorf("in effect are %+v", current)
	}
	changed, left = current.TakeOver(&next)
	if len(changed) != 0 || len(left) != 3 {
		t.Errorf("a second time: changed %q, left %q", changed, left)
	}
}

// A certificate can be replaced, TLS neither begun nor ended.
func TestTakeOverOfTLS(t *testing.T) {
	with := func(cert string) *Config {
		c := Default()
		c.Server.TLS = ServerTLS{CertFile: cert, KeyFile: cert}
		return &c
	}
	for _, tt := range []struct {
		from, to      string
		changed, left int
	}{{"a", "b", 2, 0}, {"a", "a", 0, 0}, {"", "b", 0, 2}, {"a", "", 0, 2}} {
		changed, left := with(tt.from).TakeOver(with(tt.to))
		if len(changed) != tt.changed || len(left) != tt.left {
			t.Errorf("from %q to %q: changed %q, left %q", tt.from, tt.to, changed, left)
		}
	}
}

// Every entry of the list stands for settings, so that none is a slip.
func TestReloadableKeysExist(t *testing.T) {
	for _, entry := range reloadable {
		if !slices.ContainsFunc(settings, func(s setting) bool { return covers(entry, s.key) }) {
			t.Errorf("%s stands for no setting", entry)
		}
	}
}

func TestAccess(t *testing.T) {
	const own, public = "COORDINATOR_API_ADMIN_PASSWORD=own", "SERVER_ADDRESS=0.0.0.0:80"
	long := strings.Repeat("s", 32)
	tests := []struct {
		name    string
		environ []string
		secret  string
		warning string
	}{
		{"default, on this machine", nil, "admin:password:redis-stream-coordinator-token", ""},
		{"default password for all to reach", []string{public, "COORDINATOR_API_ALLOW_DEFAULT_PASSWORD=true"}, "", "are good at this coordinator only"},
		{"users listed, the administrator's password left", []string{public, "COORDINATOR_API_USERS_0_USERNAME=a", "COORDINATOR_API_USERS_0_PASSWORD=p", "COORDINATOR_API_USERS_0_ROLES=READ"}, "", "are good at this coordinator only"},
		{"a password of one's own", []string{public, own}, "admin:own:redis-stream-coordinator-token", "are signed with the administrator's password"},
		{"by its own name", []string{public, own, "REDIS_STREAM_COORDINATOR_TOKEN_SECRET=" + long}, long, ""},
		{"blank", []string{"COORDINATOR_API_TOKEN_SECRET=  "}, "admin:password:redis-stream-coordinator-token", ""},
		{"short", []string{"COORDINATOR_API_TOKEN_SECRET=canary"}, "canary", "coordinator.api.token-secret: has 6 bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, warnings, complaint := load(t, "", tt.environ)
			if complaint != "" {
				t.Fatal(complaint)
			}
			access := c.Access()
			if err := access.Validate(); err != nil {
				t.Error(err)
			}
			if access.Tokens.Secret != tt.secret || access.Tokens.TTL != 7*24*time.Hour || access.RateLimit.Enabled || access.RateLimit.MutationsPerMinute != 60 {
				t.Errorf("secret %q, %+v", access.Tokens.Secret, access)
			}
			said := slices.DeleteFunc(warnings, func(w string) bool { return !strings.Contains(w, "token-secret") })
			if tt.warning == "" && len(said) > 0 || tt.warning != "" && (len(said) != 1 || !strings.Contains(said[0], tt.warning)) {
				t.Errorf("warnings %q", said)
			}
			if strings.Contains(strings.Join(warnings, ""), "canary") {
				t.Error("a secret is shown")
			}
		})
	}
}

func TestAccessOfAFile(t *testing.T) {
	c, _, complaint := load(t, "coordinator: {api: {token-secret: '0123456789abcdef', token-secret-previous: ' 0123456789abcdeg ', token-ttl: 90s, rate-limit: {enabled: true, admin-mutations-per-minute: 0}}}", nil)
	if complaint != "" {
		t.Fatal(complaint)
	}
	access := c.Access()
	if access.Tokens.PreviousSecret != "0123456789abcdeg" || access.Tokens.TTL != 90*time.Second || !access.RateLimit.Enabled || access.RateLimit.MutationsPerMinute != 0 {
		t.Errorf("access %+v", access)
	}
	if len(access.Users) != 1 || !reflect.DeepEqual(access.Users, c.Coordinator.API.APIUsers()) {
		t.Errorf("users %+v", access.Users)
	}
}
