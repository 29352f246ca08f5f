package httpapi

import (
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

func TestRoutingTag(t *testing.T) {
	f := &fake{routing: protocol.Routing{MetadataVersion: 1, ShardCount: 1, Shards: []protocol.RouteShard{{StreamKey: "orders:0", RedisSlot: 5}}}}
	h := newAPI(t, f)
	get := func(ifNoneMatch string) (status int, tag, body string) {
		q := request{method: "GET", path: groupPath + "/producer-routing", auth: as("member")}
		if ifNoneMatch != "" {
			q.header = map[string]string{"If-None-Match": ifNoneMatch}
		}
		w := q.send(t, h)
		return w.Code, w.Header().Get("ETag"), w.Body.String()
	}
	status, tag, body := get("")
	if status != 200 || tag == "" || body == "" {
		t.Fatalf("answered %d %q %q", status, tag, body)
	}
	for name, header := range map[string]string{"same": tag, "weak": "W/" + tag, "among others": `"x", ` + tag + `,"y"`, "any": "*"} {
		status, again, body := get(header)
		if status != 304 || again != tag || body != "" {
			t.Errorf("%s: answered %d %q %q", name, status, again, body)
		}
	}
	if status, _, body := get(`"x"`); status != 200 || body == "" {
		t.Errorf("another tag: answered %d", status)
	}
	f.routing.RoutingLeaseMs = 1
	if status, other, _ := get(tag); status != 200 || other == tag {
		t.Errorf("after a change: answered %d %q", status, other)
	}
}

// Only the routing has a tag: everything else is about this moment.
func TestOtherAnswersAreNotStored(t *testing.T) {
	w := request{method: "GET", path: groupPath, auth: as("reader"), header: map[string]string{"If-None-Match": "*"}}.send(t, newAPI(t, &fake{}))
	if w.Code != 200 || w.Header().Get("ETag") != "" || w.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("answered %d, headers %v", w.Code, w.Header())
	}
}

func TestNamesAreNotEscapedAsHTML(t *testing.T) {
	w := request{method: "GET", path: "/coord/v1/streams/a&b%3Cc%3E", auth: as("reader")}.send(t, newAPI(t, &fake{}))
	if want := `{"streamPrefix":"a&b<c>",`; w.Code != 200 || w.Body.String()[:len(want)] != want {
		t.Errorf("answered %d %s", w.Code, w.Body)
	}
}

func TestHealth(t *testing.T) {
	cases := []struct {
		status protocol.HealthStatus
		code   int
	}{{protocol.HealthUp, 200}, {protocol.HealthDegraded, 200}, {protocol.HealthDown, 503}}
	for _, c := range cases {
		h := newAPI(t, &fake{health: c.status})
		for _, path := range []string{"/coord/v1/monitoring/health", "/health/ready", "/actuator/health", "/actuator/health/readiness"} {
			if w := (request{method: "GET", path: path, auth: as("reader")}).send(t, h); w.Code != c.code {
				t.Errorf("%s while %s: %d, want %d", path, c.status, w.Code, c.code)
			}
		}
		for _, path := range []string{"/health/live", "/actuator/health/liveness"} {
			if w := (request{method: "GET", path: path}).send(t, h); w.Code != 200 || w.Body.String() != `{"status":"UP"}` {
				t.Errorf("%s while %s: %d %s", path, c.status, w.Code, w.Body)
			}
		}
	}
	// Whoever has no credentials sees no names or addresses.
	if w := (request{method: "GET", path: "/actuator/health"}).send(t, newAPI(t, &fake{})); w.Body.String() != `{"status":"UP","store":"UP","redis":"UP","loop":"UP"}` {
		t.Errorf("anybody sees %s", w.Body)
	}
}

func TestISODuration(t *testing.T) {
	cases := map[time.Duration]string{
		0: "PT0S", 3 * time.Second: "PT3S", time.Minute: "PT1M", 90 * time.Second: "PT1M30S", 25 * time.Hour: "PT25H",
		300 * time.Millisecond: "PT0.3S", 61*time.Minute + 1500*time.Millisecond: "PT1H1M1.5S", time.Nanosecond: "PT0.000000001S",
	}
	for d, want := range cases {
		got, err := isoDuration(d).MarshalText()
		if err != nil || string(got) != want {
			t.Errorf("%s: %s %v, want %s", d, got, err, want)
		}
	}
	if _, err := isoDuration(-1).MarshalText(); err == nil {
		t.Error("a negative duration was written")
	}
}
