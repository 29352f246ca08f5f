package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// requiredKeys are those that existing clients cannot do without.
var requiredKeys = []string{
	"responseTo", "status", "memberId", "memberEpoch", "heartbeatIntervalMs", "rebalanceTimeoutMs",
	"groupEpoch", "assignmentEpoch", "metadataVersion", "assignment",
}

// Bodies in the forms that the existing JVM and Python clients send, and those
// that prose describes, are accepted and answered in the shape they read.
func TestBodiesOfExistingClients(t *testing.T) {
	cases := []struct {
		file, member string
		want         protocol.Heartbeat
	}{
		{"jvm-join.json", "10.0.3.17-m0", protocol.Heartbeat{MemberEpoch: 0, Capacity: protocol.Capacity{MaxConcurrency: 1, AvailableConcurrency: 1}}},
		{"jvm-steady.json", "10.0.3.17-m0", protocol.Heartbeat{MemberEpoch: 7, MetadataVersion: 5, OwnedShards: protocol.Shards{0, 3}, Capacity: protocol.Capacity{MaxConcurrency: 1},
			RevokingShards: []protocol.RevokingShard{{Shard: 2, State: "DRAINING", InFlight: 1}, {Shard: 5, State: "REVOKED", AckedAt: "2026-02-11T09:41:07.218Z"}},
			ShardProgress:  []protocol.ShardProgress{{Shard: 0, StreamKey: "create-order:0"}, {Shard: 3, StreamKey: "create-order:3"}}}},
		{"jvm-leave.json", "10.0.3.17-m0", protocol.Heartbeat{MemberEpoch: -1, MetadataVersion: 5, OwnedShards: protocol.Shards{0, 3}, Capacity: protocol.Capacity{MaxConcurrency: 1},
			RevokingShards: []protocol.RevokingShard{{Shard: 0, State: "REVOKED", AckedAt: "2026-02-11T09:45:12Z"}, {Shard: 3, State: "DRAINING", InFlight: 1}}}},
		{"python-join.json", "worker-7c9d", protocol.Heartbeat{Capacity: protocol.Capacity{MaxConcurrency: 1, AvailableConcurrency: 1}}},
		{"python-steady.json", "worker-7c9d", protocol.Heartbeat{MemberEpoch: 7, MetadataVersion: 5, OwnedShards: protocol.Shards{1, 4}, Capacity: protocol.Capacity{MaxConcurrency: 1, AvailableConcurrency: 1}}},
		{"prose-flat.json", "m", protocol.Heartbeat{MemberEpoch: 7, MetadataVersion: 5, OwnedShards: protocol.Shards{0, 1}, Capacity: protocol.Capacity{MaxConcurrency: 4, AvailableConcurrency: 4},
			RevokingShards: []protocol.RevokingShard{{Shard: 3, State: "DRAINING", InFlight: 2}}, ShardProgress: []protocol.ShardProgress{{Shard: 0, StreamKey: "orders:0"}}}},
	}
	for _, c := range cases {
		t.Run(c.file, func(t *testing.T) {
			body, err := os.ReadFile(filepath.Join("testdata", c.file))
			if err != nil {
				t.Fatal(err)
			}
			var got *protocol.Heartbeat
			f := &fake{heartbeat: func(_ context.Context, q *protocol.Heartbeat) protocol.HeartbeatResponse {
				got = q
				r := protocol.NewHeartbeatResponse(q, protocol.StatusOK, "", protocol.DefaultTimings())
				r.Assignment.AssignedShards = append(r.Assignment.AssignedShards, protocol.AssignedShard{Shard: 1, Epoch: 9})
				r.Assignment.PendingShards = protocol.Shards{2}
				return r
			}}
			q := request{method: "POST", path: groupPath + "/members/" + c.member + "/heartbeat", body: string(body), header: map[string]string{"Content-Type": "application/json"}}
			w := q.send(t, newAPI(t, f))
			if w.Code != 200 {
				t.Fatalf("status %d: %s", w.Code, w.Body)
			}
			if got.MemberID != c.member || got.MemberEpoch != c.want.MemberEpoch || got.MetadataVersion != c.want.MetadataVersion || got.Capacity != c.want.Capacity {
				t.Errorf("understood as %+v", got)
			}
			if len(got.OwnedShards) != len(c.want.OwnedShards) || len(got.RevokingShards) != len(c.want.RevokingShards) || len(got.ShardProgress) != len(c.want.ShardProgress) {
				t.Fatalf("understood as %+v", got)
			}
			for i, s := range c.want.OwnedShards {
				if got.OwnedShards[i] != s {
					t.Errorf("owned %v, want %v", got.OwnedShards, c.want.OwnedShards)
				}
			}
			for i, r := range c.want.RevokingShards {
				if got.RevokingShards[i] != r {
					t.Errorf("revoking %+v, want %+v", got.RevokingShards[i], r)
				}
			}
			for i, p := range c.want.ShardProgress {
				if got.ShardProgress[i].Shard != p.Shard || got.ShardProgress[i].StreamKey != p.StreamKey {
					t.Errorf("progress %+v, want %+v", got.ShardProgress[i], p)
				}
			}
			var answer map[string]json.RawMessage
			if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
				t.Fatal(err)
			}
			for _, key := range requiredKeys {
				if len(answer[key]) == 0 || string(answer[key]) == "null" {
					t.Errorf("the answer lacks %s: %s", key, w.Body)
				}
			}
			if want := `{"assignedShards":[{"shardIndex":1,"epoch":9}],"pendingShards":[{"shardIndex":2}],"metadataVersion":0,"error":"NONE"}`; string(answer["assignment"]) != want {
				t.Errorf("assignment %s\nwant %s", answer["assignment"], want)
			}
		})
	}
}

func beat(t *testing.T, h http.Handler, path, body string) protocol.HeartbeatResponse {
	t.Helper()
	w := request{method: "POST", path: path, body: body}.send(t, h)
	if w.Code != 200 {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	var r protocol.HeartbeatResponse
	if err := json.Unmarshal(w.Body.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestHeartbeatForAnotherMember(t *testing.T) {
	f := &fake{}
	r := beat(t, newAPI(t, f), groupPath+"/members/other/heartbeat", strings.Replace(minimalBeat, `"memberEpoch":0`, `"memberEpoch":5`, 1))
	if r.Status != protocol.StatusInvalidRequest || r.MemberID != "other" || r.MemberEpoch != 5 || r.ResponseTo != "r-1" || r.Reason == "" || r.HeartbeatIntervalMs != 3000 {
		t.Errorf("answered %+v", r)
	}
	if f.called() != "" {
		t.Errorf("the coordinator was asked %q", f.called())
	}
	// Which protocol is spoken comes first.
	r = beat(t, newAPI(t, f), groupPath+"/members/other/heartbeat", strings.Replace(minimalBeat, `"protocolVersion":1`, `"protocolVersion":2`, 1))
	if r.Status != protocol.StatusUnsupportedProtocol || r.MemberID != "other" || f.called() != "" {
		t.Errorf("answered %+v", r)
	}
}

// Nothing that goes wrong inside reaches a member as a status that ends it.
func TestHeartbeatPanicIsRetry(t *testing.T) {
	var log bytes.Buffer
	timings := protocol.Timings{HeartbeatInterval: 200 * time.Millisecond, Lease: 2 * time.Second, RebalanceTimeout: 4 * time.Second}
	h := newAPI(t, &fake{panics: "kaboom"}, func(c *Config) {
		c.Logger = slog.New(slog.NewJSONHandler(&log, nil))
		c.Timings = timings
	})
	r := beat(t, h, beatPath, strings.Replace(minimalBeat, `"memberEpoch":0`, `"memberEpoch":5`, 1))
	if r.Status != protocol.StatusRetry || r.MemberEpoch != 5 || r.HeartbeatIntervalMs != 200 || r.MemberLeaseTTLMs != 2000 {
		t.Errorf("answered %+v", r)
	}
	if strings.Contains(r.Reason, "kaboom") || !strings.Contains(log.String(), "kaboom") {
		t.Errorf("reason %q, log %s", r.Reason, log.String())
	}
}

// A held heartbeat ends when its caller goes away.
func TestHeldHeartbeatEndsWithItsCaller(t *testing.T) {
	held, ended := make(chan struct{}), make(chan error, 1)
	f := &fake{heartbeat: func(ctx context.Context, q *protocol.Heartbeat) protocol.HeartbeatResponse {
		close(held)
		<-ctx.Done()
		ended <- ctx.Err()
		return protocol.NewHeartbeatResponse(q, protocol.StatusOK, "", protocol.DefaultTimings())
	}}
	server := httptest.NewServer(newAPI(t, f))
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+beatPath, strings.NewReader(minimalBeat))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		response, err := server.Client().Do(q)
		if err == nil {
			err = response.Body.Close()
		}
		done <- err
	}()
	<-held
	cancel()
	if err := <-ended; err == nil {
		t.Error("the context did not end")
	}
	if err := <-done; err == nil {
		t.Error("the caller got an answer")
	}
}
