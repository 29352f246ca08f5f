package server

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/redis-stream-coordinator/rsc/coordinator/internal/redistest"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

func TestAuditGoesToTheLog(t *testing.T) {
	r := run(t, settings(t), Options{})
	r.mustCall(t, "POST", "/coord/v1/streams/orders", create, 201)
	eventually(t, "the entry is there", func() bool {
		return strings.Contains(r.log.String(), "msg=audit logger=redis-stream-coordinator.audit action=CREATE_STREAM outcome=SUCCESS status=201 principal=admin coordinatorId=c-1")
	})
}

func TestAuditGoesToRedis(t *testing.T) {
	redis := redistest.Start(t)
	r := run(t, settings(t, "coordinator.redis.url="+redis.URL, "coordinator.audit.sink=redis", "coordinator.audit.redis-max-entries=2"), Options{})
	r.mustCall(t, "POST", "/coord/v1/streams/orders", create, 201)
	for range 3 {
		r.mustCall(t, "POST", "/coord/v1/streams/orders", create, 409)
	}
	r.mustCall(t, "POST", "/coord/v1/streams/orders/groups/billing", `{"requestedBy":"test","reason":"why"}`, 201)
	client := redis.Client()
	list := func(key string, want int) []string {
		t.Helper()
		entries, err := client.LRange(t.Context(), "redis-stream:coord:"+key, 0, -1).Result()
		if err != nil || len(entries) != want {
			t.Fatalf("%s: %q, %v", key, entries, err)
		}
		return entries
	}
	for _, text := range list("{orders}:admin:audit", 2) {
		if !strings.Contains(text, `"action":"CREATE_STREAM","outcome":"FAILED","status":409`) {
			t.Errorf("entry %s", text)
		}
	}
	var entry struct{ CoordinatorID, Principal, ConsumerGroup, Reason, ClientAddress string }
	if err := json.Unmarshal([]byte(list("{orders:billing}:admin:audit", 1)[0]), &entry); err != nil {
		t.Fatal(err)
	}
	if entry.CoordinatorID != "c-1" || entry.Principal != "admin" || entry.ConsumerGroup != "billing" || entry.Reason != "why" || entry.ClientAddress != "127.0.0.1" {
		t.Errorf("entry %+v", entry)
	}
}

// Shards that the coordinator creates again by itself are audited as well.
func TestRecreatedShardsAreAudited(t *testing.T) {
	redis := redistest.Start(t)
	r := run(t, settings(t, "coordinator.redis.url="+redis.URL), Options{})
	r.mustCall(t, "POST", "/coord/v1/streams/orders", create, 201)
	joined := decode(t, r.mustCall(t, "POST", beat, heartbeat(t, nil), 200))
	r.mustCall(t, "POST", beat, heartbeat(t, func(q *protocol.Heartbeat) {
		q.MemberEpoch, q.MetadataVersion, q.OwnedShards = joined.MemberEpoch, joined.MetadataVersion, protocol.Shards{0, 1}
		q.ShardProgress = []protocol.ShardProgress{{Shard: 1, Missing: true}}
	}), 200)
	eventually(t, "it is audited", func() bool {
		return strings.Contains(r.log.String(), "msg=audit logger=redis-stream-coordinator.audit action=RECREATE_SHARDS outcome=SUCCESS status=0 principal=coordinator coordinatorId=c-1") &&
			strings.Contains(r.log.String(), `requestSummary="shards=1"`)
	})
}
