package protocol

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

// wireTypes are all types that travel, each as a pointer to its zero value.
func wireTypes() []any {
	return []any{
		new(Heartbeat), new(HeartbeatResponse), new(Assignment), new(AssignedShard), new(Capacity), new(RevokingShard), new(ShardProgress), new(Shards),
		new(CreateStream), new(CreateGroup), new(Delete), new(StreamCreated), new(Stream), new(StreamList), new(Migration), new(Group), new(GroupList),
		new(Scale), new(IgnoreGroup), new(GiveUp), new(Blocker), new(StreamScaled), new(MigrationList),
		new(Routing), new(RouteShard), new(Member), new(MemberList), new(Assignments), new(Health), new(ErrorBody),
		new(Consumption), new(ConsumerProgress), new(ShardID), new(Offsets), new(ShardOffset), new(Backlog), new(MessagesPage), new(MessageRecord),
		new(SetTimings), new(GroupTimings), new(Order), new(IndexRepair),
		new(Explanation), new(ExplanationList), new(ShardHolder), new(ShardTarget), new(ShardRecords),
	}
}

// fill sets every field of v to a value that is not its zero, different ones for
// different fields.
func fill(t *testing.T, v reflect.Value, seed *int) {
	t.Helper()
	*seed++
	if v.Type() == reflect.TypeFor[time.Time]() {
		v.Set(reflect.ValueOf(time.Date(2026, 1, 2, 3, 4, 5, *seed, time.UTC)))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(fmt.Sprintf("text-%d <&> é", *seed))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(*seed))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem(), seed)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(t, v.Index(0), seed)
		fill(t, v.Index(1), seed)
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range 2 {
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			fill(t, key, seed)
			fill(t, value, seed)
			v.SetMapIndex(key, value)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			fill(t, v.Field(i), seed)
		}
	default:
		t.Fatalf("%s cannot be filled: teach the test", v.Type())
	}
}

func TestRoundTrip(t *testing.T) {
	for _, sample := range wireTypes() {
		typ := reflect.TypeOf(sample).Elem()
		t.Run(typ.Name(), func(t *testing.T) {
			seed := 0
			fill(t, reflect.ValueOf(sample).Elem(), &seed)
			encoded, err := json.Marshal(sample)
			if err != nil {
				t.Fatal(err)
			}
			back := reflect.New(typ)
			if err := json.Unmarshal(encoded, back.Interface()); err != nil {
				t.Fatalf("%v\n%s", err, encoded)
			}
			if !reflect.DeepEqual(back.Interface(), sample) {
				t.Errorf("came back as\n%+v, was\n%+v", back.Elem(), reflect.ValueOf(sample).Elem())
			}
		})
	}
}

// Every type of the package that has JSON names is among those that the tests
// here go through.
func TestNoWireTypeIsForgotten(t *testing.T) {
	known := make(map[string]bool)
	for _, sample := range wireTypes() {
		known[reflect.TypeOf(sample).Elem().Name()] = true
	}
	for name := range structsWithTags(t) {
		if !known[name] {
			t.Errorf("%s has JSON names and is not in wireTypes", name)
		}
	}
}

// Field names are the contract: lower case at first, no underscores.
func TestFieldNames(t *testing.T) {
	for _, sample := range wireTypes() {
		seed := 0
		fill(t, reflect.ValueOf(sample).Elem(), &seed)
		encoded, err := json.Marshal(sample)
		if err != nil {
			t.Fatal(err)
		}
		var fields map[string]json.RawMessage
		if json.Unmarshal(encoded, &fields) != nil {
			continue // a list
		}
		for name := range fields {
			if name[0] < 'a' || name[0] > 'z' || strings.ContainsAny(name, "_-") {
				t.Errorf("%T: field %q", sample, name)
			}
		}
	}
}

func TestGoldenResponse(t *testing.T) {
	q := &Heartbeat{RequestID: "r1", MemberID: "a", MemberEpoch: 12}
	ok := NewHeartbeatResponse(q, StatusOK, "", DefaultTimings())
	ok.MemberEpoch, ok.GroupEpoch, ok.AssignmentEpoch, ok.MetadataVersion = 13, 14, 14, 9
	ok.Assignment.AssignedShards = []AssignedShard{{Shard: 0, Epoch: 11}, {Shard: 2, Epoch: 13}}
	ok.Assignment.PendingShards = Shards{1}
	ok.Assignment.MetadataVersion = 9
	tests := []struct {
		name string
		resp HeartbeatResponse
		want string
	}{
		{"with shards", ok, `{"responseTo":"r1","status":"OK","memberId":"a","memberEpoch":13,"heartbeatIntervalMs":3000,"rebalanceTimeoutMs":60000,` +
			`"memberLeaseTtlMs":15000,"groupEpoch":14,"assignmentEpoch":14,"metadataVersion":9,"assignment":{"assignedShards":[{"shardIndex":0,"epoch":11},` +
			`{"shardIndex":2,"epoch":13}],"pendingShards":[{"shardIndex":1}],"metadataVersion":9,"error":"NONE"}}`},
		// Old clients need an object and lists in every answer, and an interval above 0.
		{"with nothing", NewHeartbeatResponse(q, StatusRetry, "the store is down", DefaultTimings()), `{"responseTo":"r1","status":"RETRY","memberId":"a",` +
			`"memberEpoch":12,"heartbeatIntervalMs":3000,"rebalanceTimeoutMs":60000,"memberLeaseTtlMs":15000,"groupEpoch":0,"assignmentEpoch":0,"metadataVersion":0,` +
			`"assignment":{"assignedShards":[],"pendingShards":[],"metadataVersion":0,"error":"NONE"},"reason":"the store is down"}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := json.Marshal(tt.resp)
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != tt.want {
				t.Errorf("got\n%s, want\n%s", got, tt.want)
			}
		})
	}
}

func TestGoldenRows(t *testing.T) {
	for _, tt := range []struct {
		v    any
		want string
	}{
		{Shards(nil), `[]`},
		{Shards{7, 0}, `[{"shardIndex":7},{"shardIndex":0}]`},
		{RevokingShard{Shard: 3, State: RevokeDraining, InFlight: 2}, `{"shard":{"shardIndex":3},"state":"DRAINING","inFlight":2,"ackedAt":null}`},
		{RevokingShard{Shard: 3, State: RevokeRevoked, AckedAt: "2026-01-01T00:00:00Z"}, `{"shard":{"shardIndex":3},"state":"REVOKED","inFlight":0,"ackedAt":"2026-01-01T00:00:00Z"}`},
		{ShardProgress{Shard: 3, StreamKey: "orders:3"}, `{"shard":{"shardIndex":3},"streamKey":"orders:3","lastDeliveredId":null,"lastAckedId":null,"pendingCount":0,"updatedAt":null}`},
		{ShardProgress{Shard: 3, StreamKey: "orders:3", LastDeliveredID: "2-0", LastAckedID: "1-0", PendingCount: 1, UpdatedAt: "2026-01-01T00:00:00Z", Missing: true},
			`{"shard":{"shardIndex":3},"streamKey":"orders:3","lastDeliveredId":"2-0","lastAckedId":"1-0","pendingCount":1,"updatedAt":"2026-01-01T00:00:00Z","missing":true}`},
		{ErrorBody{Status: "NOT_FOUND", ErrorCode: "STREAM_NOT_FOUND", Message: "no stream x"}, `{"status":"NOT_FOUND","errorCode":"STREAM_NOT_FOUND","message":"no stream x"}`},
		{Routing{StreamPrefix: "orders", ConsumerGroup: "billing", MetadataVersion: 9, ShardCount: 1, StreamKeyPattern: "orders:{shardIndex}",
			Shards: []RouteShard{{ShardIndex: 0, StreamKey: "orders:0", RedisSlot: 8578}}, RoutingLeaseMs: 30000},
			`{"streamPrefix":"orders","consumerGroup":"billing","metadataVersion":9,"shardCount":1,"streamKeyPattern":"orders:{shardIndex}",` +
				`"shards":[{"shardIndex":0,"streamKey":"orders:0","redisSlot":8578}],"routingLeaseMs":30000}`},
	} {
		got, err := json.Marshal(tt.v)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != tt.want {
			t.Errorf("got\n%s, want\n%s", got, tt.want)
		}
	}
}

func TestStatusesAndStates(t *testing.T) {
	for status, renews := range map[Status]bool{
		StatusOK: true, StatusSyncMetadata: true, StatusRevokePending: true,
		StatusRetry: false, StatusUnknownMember: false, StatusFencedEpoch: false, StatusUnsupportedProtocol: false, StatusInvalidRequest: false, "": false,
	} {
		if status.RenewsLease() != renews {
			t.Errorf("%s renews the lease: %t", status, status.RenewsLease())
		}
	}
	for r, terminal := range map[RevokingShard]bool{
		{State: RevokeRevoked}: true, {State: RevokeRevoked, InFlight: 1}: false, {State: RevokeDraining}: false, {State: RevokeRevoking}: false, {}: false,
	} {
		if r.Terminal() != terminal {
			t.Errorf("%+v is terminal: %t", r, r.Terminal())
		}
	}
}
