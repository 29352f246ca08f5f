package httpapi

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

func (f *fake) migration(id string) protocol.Migration {
	return protocol.Migration{ReshardingID: id, State: protocol.MigrationActive, BlockedBy: []protocol.Blocker{}}
}

func (f *fake) ScaleStream(_ context.Context, prefix string, r protocol.Scale) (protocol.StreamScaled, error) {
	if err := r.Validate(100); err != nil {
		return protocol.StreamScaled{}, err
	}
	f.note("ScaleStream %s to %d by %s", prefix, *r.TargetShardCount, r.RequestedBy)
	return protocol.StreamScaled{StreamPrefix: prefix, AffectedConsumerGroups: []string{}, Migrations: []protocol.Migration{f.migration("m1")}}, f.err
}

func (f *fake) ScaleGroup(_ context.Context, prefix, group string, r protocol.Scale) (protocol.Migration, error) {
	if err := r.Validate(100); err != nil {
		return protocol.Migration{}, err
	}
	f.note("ScaleGroup %s %s to %d", prefix, group, *r.TargetShardCount)
	return f.migration("m1"), f.err
}

func (f *fake) Migrations(_ context.Context, prefix string) (protocol.MigrationList, error) {
	f.note("Migrations %s", prefix)
	return protocol.MigrationList{Migrations: []protocol.Migration{f.migration("m1")}}, f.err
}

func (f *fake) Migration(_ context.Context, prefix, id string) (protocol.Migration, error) {
	f.note("Migration %s %s", prefix, id)
	return f.migration(id), f.err
}

func (f *fake) GroupMigration(_ context.Context, prefix, group, id string) (protocol.Migration, error) {
	f.note("GroupMigration %s %s %s", prefix, group, id)
	return f.migration(id), f.err
}

func (f *fake) Rollback(_ context.Context, prefix, id string, r protocol.Order) (protocol.Migration, error) {
	f.note("Rollback %s %s by %s", prefix, id, r.RequestedBy)
	return f.migration(id), f.err
}

func (f *fake) GroupRollback(_ context.Context, prefix, group, id string, r protocol.Order) (protocol.Migration, error) {
	f.note("GroupRollback %s %s %s by %s", prefix, group, id, r.RequestedBy)
	return f.migration(id), f.err
}

func (f *fake) IgnoreGroup(_ context.Context, prefix string, r protocol.IgnoreGroup) (protocol.Stream, error) {
	f.note("IgnoreGroup %s %s by %s", prefix, r.ConsumerGroup, r.RequestedBy)
	return protocol.Stream{StreamPrefix: prefix, Groups: []string{}}, f.err
}

func (f *fake) GiveUp(_ context.Context, prefix string, r protocol.GiveUp) (protocol.Stream, error) {
	f.note("GiveUp %s %v by %s", prefix, r.Shards, r.RequestedBy)
	return protocol.Stream{StreamPrefix: prefix, Groups: []string{}}, f.err
}

// reshardNeeds are what the routes ask for that change shard counts.
var reshardNeeds = map[string]permission{
	"POST " + streamRoute + "/scale":                             mayWrite,
	"GET " + streamRoute + "/migrations":                         mayRead,
	"GET " + streamRoute + "/migrations/:reshardingId":           mayRead,
	"POST " + streamRoute + "/migrations/:reshardingId/rollback": mayWrite,
	"POST " + streamRoute + "/ignore-group":                      mayWrite,
	"POST " + streamRoute + "/give-up":                           mayWrite,
	"POST " + groupRoute + "/scale":                              mayWrite,
	"GET " + groupRoute + "/migrations/:reshardingId":            mayRead,
	"POST " + groupRoute + "/migrations/:reshardingId/rollback":  mayWrite,
}

// The calls of the routes that change shard counts.
func init() {
	const (
		scaleBody = `{"targetShardCount":8,"requestedBy":"ops","reason":"load"}`
		migration = "/migrations/:reshardingId"
		orders    = "/coord/v1/streams/orders"
	)
	for _, c := range []struct {
		method, path, user, body, route string
		status                          int
		called, part                    string
	}{
		{"POST", orders + "/scale", "writer", scaleBody, streamRoute + "/scale", 202, "ScaleStream orders to 8 by ops", `"migrations":[{"reshardingId":"m1"`},
		{"GET", orders + "/migrations", "reader", "", streamRoute + "/migrations", 200, "Migrations orders", `{"migrations":[{"reshardingId":"m1"`},
		{"GET", orders + "/migrations/m7", "reader", "", streamRoute + migration, 200, "Migration orders m7", `"state":"ACTIVE"`},
		{"POST", orders + "/migrations/m7/rollback", "writer", orderBody, streamRoute + migration + "/rollback", 202, "Rollback orders m7 by ops", `"reshardingId":"m7"`},
		{"POST", orders + "/ignore-group", "writer", `{"consumerGroup":"x","requestedBy":"ops","reason":"x"}`, streamRoute + "/ignore-group", 202, "IgnoreGroup orders x by ops", `"streamPrefix":"orders"`},
		{"POST", orders + "/give-up", "writer", `{"shards":[3,4],"requestedBy":"ops","reason":"x"}`, streamRoute + "/give-up", 202, "GiveUp orders [3 4] by ops", `"streamPrefix":"orders"`},
		{"POST", groupPath + "/scale", "writer", scaleBody, groupRoute + "/scale", 202, "ScaleGroup orders billing to 8", `"reshardingId":"m1"`},
		{"GET", groupPath + "/migrations/m7", "reader", "", groupRoute + migration, 200, "GroupMigration orders billing m7", `"blockedBy":[]`},
		{"POST", groupPath + "/migrations/m7/rollback", "writer", orderBody, groupRoute + migration + "/rollback", 202, "GroupRollback orders billing m7 by ops", `"reshardingId":"m7"`},
	} {
		one := routeCases[0]
		one.request = request{method: c.method, path: c.path, auth: as(c.user), body: c.body}
		one.route, one.status, one.called, one.body = c.route, c.status, c.called, c.part
		routeCases = append(routeCases, one)
	}
}

// A shard count is changed and looked at through the stream, and through a group as
// older clients do.
func TestScalingOnTheRealCoordinator(t *testing.T) {
	h, _ := realAPI(t)
	do(t, h, "POST", "/streams/orders", createBody, 201)
	do(t, h, "POST", "/streams/orders/groups/billing", `{"requestedBy":"ops"}`, 201)
	do(t, h, "POST", "/streams/orders/groups/audit", `{"requestedBy":"ops"}`, 201)
	var scaled protocol.StreamScaled
	answer := do(t, h, "POST", "/streams/orders/scale", `{"targetShardCount":8,"requestedBy":"ops","reason":"load","deprecatedAfter":null}`, 202)
	if err := json.Unmarshal([]byte(answer), &scaled); err != nil {
		t.Fatal(err)
	}
	if len(scaled.Migrations) != 2 || strings.Join(scaled.AffectedConsumerGroups, ",") != "audit,billing" || scaled.TargetShardCount != 8 {
		t.Fatalf("scaled: %s", answer)
	}
	noNullLists(t, "scale", answer)
	m := scaled.Migrations[0]
	if m.State != protocol.MigrationActive || m.FromShardCount != 4 || m.ToShardCount != 8 {
		t.Errorf("the change is %+v", m)
	}
	for _, path := range []string{"/streams/orders/migrations/", "/streams/orders/groups/billing/migrations/"} {
		got := do(t, h, "GET", path+m.ReshardingID, "", 200)
		if !strings.Contains(got, m.ReshardingID) || !strings.Contains(got, `"blockedBy":[{"kind":"ROUTING_LEASE"`) {
			t.Errorf("%s: %s", path, got)
		}
	}
	if got := do(t, h, "GET", "/streams/orders/groups/billing", "", 200); !strings.Contains(got, `"shardCount":8,"activeMigration":{"reshardingId":"`+m.ReshardingID) {
		t.Errorf("the group: %s", got)
	}
	order := `{"requestedBy":"ops","reason":"too many"}`
	do(t, h, "POST", "/streams/orders/scale", `{"targetShardCount":6,"requestedBy":"ops","reason":"load"}`, 409)
	do(t, h, "POST", "/streams/orders/scale", `{"targetShardCount":-1,"requestedBy":"ops","reason":"load"}`, 400)
	do(t, h, "POST", "/streams/orders/groups/billing/scale", `{"requestedBy":"ops","reason":"load"}`, 400)
	do(t, h, "POST", "/streams/nothing/scale", `{"targetShardCount":6,"requestedBy":"ops","reason":"load"}`, 404)
	do(t, h, "GET", "/streams/orders/migrations/nothing", "", 404)
	do(t, h, "GET", "/streams/orders/groups/nobody/migrations/"+m.ReshardingID, "", 404)
	do(t, h, "POST", "/streams/orders/ignore-group", `{"consumerGroup":"billing","requestedBy":"ops","reason":"x"}`, 400)
	if got := do(t, h, "POST", "/streams/orders/groups/billing/migrations/"+m.ReshardingID+"/rollback", order, 202); !strings.Contains(got, `"state":"ROLLED_BACK"`) {
		t.Errorf("rolled back: %s", got)
	}
	do(t, h, "POST", "/streams/orders/migrations/"+m.ReshardingID+"/rollback", order, 202)
	do(t, h, "POST", "/streams/orders/give-up", `{"shards":[3],"requestedBy":"ops","reason":"x"}`, 400)
	do(t, h, "POST", "/streams/orders/give-up", `{"shards":[4,5,6,7],"requestedBy":"ops","reason":"x"}`, 202)
	if got := do(t, h, "GET", "/streams/orders/migrations", "", 200); strings.Count(got, "reshardingId") != 1 {
		t.Errorf("the changes: %s", got)
	}
	if got := do(t, h, "POST", "/streams/orders/groups/billing/scale", `{"targetShardCount":4,"requestedBy":"ops","reason":"load"}`, 202); !strings.Contains(got, `"reshardingId":"noop"`) {
		t.Errorf("to the same count: %s", got)
	}
}
