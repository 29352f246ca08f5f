package server

import (
	"context"
	"crypto/tls"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/redis-stream-coordinator/rsc/coordinator/internal/config"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// statusAs asks for the streams as somebody and returns the status.
func (r *running) statusAs(t *testing.T, username, password string) int {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.URL()+"/coord/v1/streams", nil)
	if err != nil {
		t.Fatal(err)
	}
	q.SetBasicAuth(username, password)
	response, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	if err := response.Body.Close(); err != nil {
		t.Fatal(err)
	}
	return response.StatusCode
}

func TestReloadOfUsers(t *testing.T) {
	r := run(t, settings(t), Options{})
	if status := r.statusAs(t, "admin", config.DefaultPassword); status != 200 {
		t.Fatalf("status %d", status)
	}
	next := settings(t, "coordinator.routing-lease=1m", "coordinator.limits.max-shards=1")
	next.Coordinator.API.Users = []config.User{{Username: "ops", Password: "own", Roles: []string{"READ"}}}
	changed, left, err := r.Reload(next)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(changed, []string{"coordinator.api.users", "coordinator.limits.max-shards"}) || !slices.Equal(left, []string{"coordinator.routing-lease"}) {
		t.Errorf("changed %q, left %q", changed, left)
	}
	if status := r.statusAs(t, "ops", "own"); status != 200 {
		t.Errorf("the new user: %d", status)
	}
	if status := r.statusAs(t, "admin", config.DefaultPassword); status != 401 {
		t.Errorf("the former administrator: %d", status)
	}
	two := 2
	if _, err := r.coordinator.CreateStream(t.Context(), "orders", protocol.CreateStream{InitialShardCount: &two, RequestedBy: "test"}); err == nil {
		t.Error("a stream has more shards than the new limit")
	}
}

// A password that is only good on this machine is not taken over by a server that goes
// on listening everywhere.
func TestReloadIsJudgedByWhatStays(t *testing.T) {
	r := run(t, settings(t, "server.address=0.0.0.0:0", "coordinator.api.admin-password=own"), Options{})
	_, _, err := r.Reload(settings(t, "server.address=127.0.0.1:0"))
	if err == nil || !strings.Contains(err.Error(), "coordinator.api.admin-password") {
		t.Errorf("Reload: %v", err)
	}
	if status := r.statusAs(t, "admin", config.DefaultPassword); status != 401 {
		t.Errorf("the default password: %d", status)
	}
	if status := r.statusAs(t, "admin", "own"); status != 200 {
		t.Errorf("the password of before: %d", status)
	}
}

func TestReloadOfTheCertificate(t *testing.T) {
	certFile, keyFile, pool := certificate(t)
	r := run(t, settings(t, "server.tls.cert-file="+certFile, "server.tls.key-file="+keyFile), Options{})
	serial := func() string {
		t.Helper()
		conn, err := (&tls.Dialer{Config: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}).DialContext(context.Background(), "tcp", strings.TrimPrefix(r.URL(), "https://"))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		return string(conn.(*tls.Conn).ConnectionState().PeerCertificates[0].Raw) //nolint:errcheck,forcetypeassert // what this dialer makes
	}
	first := serial()
	same := settings(t, "server.tls.cert-file="+certFile, "server.tls.key-file="+keyFile)
	if changed, left, err := r.Reload(same); err != nil || len(changed)+len(left) != 0 {
		t.Errorf("with nothing new: %q %q %v", changed, left, err)
	}
	otherCert, otherKey, otherPool := certificate(t)
	for from, to := range map[string]string{otherCert: certFile, otherKey: keyFile} {
		text, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(to, text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	changed, _, err := r.Reload(same)
	if err != nil || !slices.Equal(changed, []string{"server.tls (the certificate)"}) {
		t.Errorf("changed %q, %v", changed, err)
	}
	pool = otherPool
	if serial() == first {
		t.Error("the old certificate is presented")
	}
	// One that cannot be read leaves the one there is, and everything else.
	if err := os.WriteFile(keyFile, []byte("no key"), 0o600); err != nil {
		t.Fatal(err)
	}
	other := settings(t, "server.tls.cert-file="+certFile, "server.tls.key-file="+keyFile, "coordinator.api.admin-password=other")
	if _, _, err := r.Reload(other); err == nil || !strings.Contains(err.Error(), "server.tls") {
		t.Errorf("Reload: %v", err)
	}
	serial()
}
