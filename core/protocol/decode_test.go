package protocol

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// body returns a valid heartbeat with the given fields added or replaced; a value
// of "-" removes the field.
func body(tb testing.TB, fields map[string]string) []byte {
	tb.Helper()
	all := map[string]json.RawMessage{
		"protocolVersion": json.RawMessage("1"), "requestId": json.RawMessage(`"r1"`), "memberId": json.RawMessage(`"a"`),
		"memberEpoch": json.RawMessage("7"), "metadataVersion": json.RawMessage("3"),
		"runtimeConsumerCapacity": json.RawMessage(`{"runtimeMaxConcurrency":4,"availableConcurrency":2}`),
	}
	for name, value := range fields {
		if value == "-" {
			delete(all, name)
			continue
		}
		all[name] = json.RawMessage(value)
	}
	out, err := json.Marshal(all)
	if err != nil {
		tb.Fatal(err)
	}
	return out
}

func TestFormsOfLists(t *testing.T) {
	three := []RevokingShard{{Shard: 3, State: RevokeDraining, InFlight: 2, AckedAt: "2026-01-01T00:00:00Z"}}
	progress := []ShardProgress{{Shard: 3, StreamKey: "orders:3", LastDeliveredID: "5-0", LastAckedID: "4-0", PendingCount: 1, UpdatedAt: "2026-01-01T00:00:00Z"}}
	tests := []struct {
		name, field, value string
		owned              Shards
		revoking           []RevokingShard
		progress           []ShardProgress
	}{
		{"objects", "ownedShards", `[{"shardIndex":3},{"shardIndex":0}]`, Shards{3, 0}, nil, nil},
		{"bare integers", "ownedShards", `[3,0]`, Shards{3, 0}, nil, nil},
		{"both, with a state and something unknown", "ownedShards", `[{"shardIndex":3,"state":"OWNED","x":{"y":[1]}}, 0]`, Shards{3, 0}, nil, nil},
		{"empty", "ownedShards", `[]`, Shards{}, nil, nil},
		{"null", "ownedShards", `null`, Shards{}, nil, nil},
		{"absurd indexes are judged later", "ownedShards", `[-1,99999999]`, Shards{-1, 99999999}, nil, nil},

		{"nested revoking", "revokingShards", `[{"shard":{"shardIndex":3},"state":"DRAINING","inFlight":2,"ackedAt":"2026-01-01T00:00:00Z"}]`, nil, three, nil},
		{"flat revoking", "revokingShards", `[{"shardIndex":3,"state":"DRAINING","inFlight":2,"ackedAt":"2026-01-01T00:00:00Z"}]`, nil, three, nil},
		{"bare shard inside", "revokingShards", `[{"shard":3,"state":"DRAINING","inFlight":2,"ackedAt":"2026-01-01T00:00:00Z"}]`, nil, three, nil},
		{"the least", "revokingShards", `[{"shardIndex":3,"state":"REVOKED"}]`, nil, []RevokingShard{{Shard: 3, State: RevokeRevoked}}, nil},
		{"nulls inside", "revokingShards", `[{"shard":{"shardIndex":0},"shardIndex":null,"state":"REVOKING","inFlight":0,"ackedAt":null}]`, nil, []RevokingShard{{State: RevokeRevoking}}, nil},
		{"null revoking", "revokingShards", `null`, nil, nil, nil},

		{"nested progress", "shardProgress", `[{"shard":{"shardIndex":3},"streamKey":"orders:3","lastDeliveredId":"5-0","lastAckedId":"4-0","pendingCount":1,"updatedAt":"2026-01-01T00:00:00Z"}]`, nil, nil, progress},
		{"flat progress", "shardProgress", `[{"shardIndex":3,"streamKey":"orders:3","lastDeliveredId":"5-0","lastAckedId":"4-0","pendingCount":1,"updatedAt":"2026-01-01T00:00:00Z"}]`, nil, nil, progress},
		{"missing stream", "shardProgress", `[{"shard":3,"streamKey":"orders:3","missing":true}]`, nil, nil, []ShardProgress{{Shard: 3, StreamKey: "orders:3", Missing: true}}},
		{"null progress", "shardProgress", `null`, nil, nil, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := DecodeHeartbeat(body(t, map[string]string{tt.field: tt.value}))
			if err != nil {
				t.Fatal(err)
			}
			if len(got.OwnedShards) != len(tt.owned) || (len(tt.owned) > 0 && !reflect.DeepEqual(got.OwnedShards, tt.owned)) {
				t.Errorf("ownedShards %v, want %v", got.OwnedShards, tt.owned)
			}
			if len(got.RevokingShards) != len(tt.revoking) || (len(tt.revoking) > 0 && !reflect.DeepEqual(got.RevokingShards, tt.revoking)) {
				t.Errorf("revokingShards %+v, want %+v", got.RevokingShards, tt.revoking)
			}
			if len(got.ShardProgress) != len(tt.progress) || (len(tt.progress) > 0 && !reflect.DeepEqual(got.ShardProgress, tt.progress)) {
				t.Errorf("shardProgress %+v, want %+v", got.ShardProgress, tt.progress)
			}
		})
	}
}

func TestOptionalFields(t *testing.T) {
	got, err := DecodeHeartbeat(body(t, map[string]string{
		"incarnation": `"i2"`, "stoppedIncarnation": `"i1"`, "maxWaitMs": "5000", "memberName": "null", "memberEpoch": "0",
		"somethingNew": `{"deep":[1,2,{"er":null}]}`,
	}))
	if err != nil {
		t.Fatal(err)
	}
	want := Heartbeat{
		ProtocolVersion: 1, RequestID: "r1", MemberID: "a", Incarnation: "i2", StoppedIncarnation: "i1", MetadataVersion: 3,
		Capacity: Capacity{MaxConcurrency: 4, AvailableConcurrency: 2}, MaxWaitMs: 5000,
	}
	if !reflect.DeepEqual(*got, want) {
		t.Errorf("decoded %+v, want %+v", *got, want)
	}
}

func TestRefusedHeartbeats(t *testing.T) {
	long := `"` + strings.Repeat("x", MaxNameBytes+1) + `"`
	tests := []struct {
		name   string
		fields map[string]string
		words  []string
	}{
		// Missing fields are all named at once.
		{"nothing there", map[string]string{"protocolVersion": "-", "requestId": "-", "memberId": "-", "memberEpoch": "-", "metadataVersion": "-", "runtimeConsumerCapacity": "-"},
			[]string{"protocolVersion: is missing", "requestId: is missing", "memberId: is missing", "memberEpoch: is missing", "metadataVersion: is missing", "runtimeConsumerCapacity: is missing"}},
		{"null is missing", map[string]string{"memberEpoch": "null"}, []string{"memberEpoch: is missing"}},
		{"capacity without its fields", map[string]string{"runtimeConsumerCapacity": "{}"}, []string{"runtimeConsumerCapacity.runtimeMaxConcurrency: is 0, must be at least 1"}},

		{"string for a number", map[string]string{"memberEpoch": `"7"`}, []string{"memberEpoch", "string"}},
		{"fraction", map[string]string{"metadataVersion": "1.5"}, []string{"metadataVersion", "1.5"}},
		{"too large for the type", map[string]string{"memberEpoch": "9223372036854775808"}, []string{"memberEpoch", "9223372036854775808"}},
		{"number for a string", map[string]string{"memberId": "7"}, []string{"memberId", "number"}},
		{"number for an optional string", map[string]string{"incarnation": "7"}, []string{"incarnation", "number"}},
		{"deep", map[string]string{"runtimeConsumerCapacity": `{"runtimeMaxConcurrency":"4"}`}, []string{"runtimeConsumerCapacity.runtimeMaxConcurrency", "string"}},
		{"array for an object", map[string]string{"runtimeConsumerCapacity": `[]`}, []string{"runtimeConsumerCapacity cannot be an array"}},

		{"object for a list", map[string]string{"ownedShards": `{}`}, []string{"ownedShards", "object"}},
		{"string in a list", map[string]string{"ownedShards": `["3"]`}, []string{"ownedShards", "string"}},
		{"null in a list", map[string]string{"ownedShards": `[null]`}, []string{"ownedShards", "null is not a shard"}},
		{"object without an index", map[string]string{"ownedShards": `[{"index":3}]`}, []string{"ownedShards", "shardIndex is missing"}},
		{"index of another type", map[string]string{"ownedShards": `[{"shardIndex":"3"}]`}, []string{"ownedShards", "shardIndex", "string"}},
		{"revoking without a shard", map[string]string{"revokingShards": `[{"state":"REVOKED"}]`}, []string{"revokingShards", "shard is missing"}},
		{"revoking with an empty shard", map[string]string{"revokingShards": `[{"shard":{},"state":"REVOKED"}]`}, []string{"revokingShards", "shardIndex is missing"}},
		{"revoking without a state", map[string]string{"revokingShards": `[{"shardIndex":3}]`}, []string{"revokingShards.state", "REVOKING, DRAINING or REVOKED"}},
		{"unknown state", map[string]string{"revokingShards": `[{"shardIndex":3,"state":"GONE"}]`}, []string{"revokingShards.state", `"GONE"`}},
		{"negative in flight", map[string]string{"revokingShards": `[{"shardIndex":3,"state":"DRAINING","inFlight":-1}]`}, []string{"revokingShards.inFlight", "-1"}},
		{"in flight of another type", map[string]string{"revokingShards": `[{"shardIndex":3,"state":"DRAINING","inFlight":"1"}]`}, []string{"revokingShards", "inFlight", "string"}},
		{"revoking is a bare number", map[string]string{"revokingShards": `[3]`}, []string{"revokingShards", "number"}},
		{"progress without a shard", map[string]string{"shardProgress": `[{"streamKey":"orders:3"}]`}, []string{"shardProgress", "shard is missing"}},
		{"progress of another type", map[string]string{"shardProgress": `[{"shardIndex":3,"pendingCount":"1"}]`}, []string{"shardProgress", "pendingCount", "string"}},
		{"two lists at once", map[string]string{"ownedShards": `[null]`, "shardProgress": `[{}]`}, []string{"ownedShards:", "shardProgress:"}},

		{"version zero", map[string]string{"protocolVersion": "0"}, []string{"protocolVersion: is 0, must be at least 1"}},
		{"blank request id", map[string]string{"requestId": `" "`}, []string{"requestId: must not be blank"}},
		{"blank member id", map[string]string{"memberId": `""`}, []string{"memberId: must not be blank"}},
		{"long member id", map[string]string{"memberId": long}, []string{"memberId: is 201 bytes long, at most 200 are allowed"}},
		{"long request id", map[string]string{"requestId": long}, []string{"requestId: is 201 bytes"}},
		{"long name", map[string]string{"memberName": long}, []string{"memberName: is 201 bytes"}},
		{"long incarnation", map[string]string{"incarnation": long}, []string{"incarnation: is 201 bytes"}},
		{"long stopped incarnation", map[string]string{"incarnation": `"i"`, "stoppedIncarnation": long}, []string{"stoppedIncarnation: is 201 bytes"}},
		{"slash", map[string]string{"memberId": `"a/b"`}, []string{"memberId: must not contain /"}},
		{"control character", map[string]string{"memberId": `"a\nb"`}, []string{"memberId: must not contain control characters"}},
		{"stopped is the same", map[string]string{"incarnation": `"i"`, "stoppedIncarnation": `"i"`}, []string{"stoppedIncarnation: must differ from incarnation"}},
		{"stopped alone", map[string]string{"stoppedIncarnation": `"i"`}, []string{"stoppedIncarnation: needs incarnation"}},
		{"capacity", map[string]string{"runtimeConsumerCapacity": `{"runtimeMaxConcurrency":0,"availableConcurrency":-1}`},
			[]string{"runtimeMaxConcurrency: is 0", "availableConcurrency: is -1, must be at least 0"}},
		{"negative wait", map[string]string{"maxWaitMs": "-1"}, []string{"maxWaitMs: is -1, must be at least 0"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			q, err := DecodeHeartbeat(body(t, tt.fields))
			wantRefusal(t, err, tt.words...)
			if q != nil {
				t.Errorf("a refused body gives %+v", q)
			}
		})
	}
}

func TestListsAreBounded(t *testing.T) {
	q := Heartbeat{ProtocolVersion: 1, RequestID: "r", MemberID: "a", Capacity: Capacity{MaxConcurrency: 1}}
	q.OwnedShards, q.ShardProgress = make(Shards, MaxShards), make([]ShardProgress, MaxShards)
	if err := q.Validate(); err != nil {
		t.Fatalf("lists of the largest stream are refused: %v", err)
	}
	q.OwnedShards, q.ShardProgress = append(q.OwnedShards, 0), append(q.ShardProgress, ShardProgress{})
	q.RevokingShards = slices.Repeat([]RevokingShard{{State: RevokeRevoked}}, MaxShards+1)
	wantRefusal(t, q.Validate(), "ownedShards: has 65537 entries, at most 65536 are allowed", "revokingShards: has 65537 entries", "shardProgress: has 65537 entries")
}

func wantRefusal(t *testing.T, err error, words ...string) {
	t.Helper()
	if !errors.Is(err, ErrInvalidRequest) {
		t.Fatalf("got %v, want %s", err, ErrInvalidRequest.Code)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q does not mention %q", err, w)
		}
	}
	for _, w := range []string{"Go ", "json:", "struct", "protocol.", "Heartbeat", "shardRef", "RawMessage"} {
		if strings.Contains(err.Error(), w) {
			t.Errorf("%q speaks of the code: %q", err, w)
		}
	}
}

func TestBodiesThatAreNoObject(t *testing.T) {
	for text, words := range map[string]string{
		"": "is empty", " \n": "is empty", "{": "unexpected end", "[]": "cannot be an array", "7": "cannot be a number", `"x"`: "string",
		"null": "protocolVersion: is missing", `{} x`: "invalid character", string(body(t, nil)) + "{}": "invalid character", "{]": "invalid character",
	} {
		_, err := DecodeHeartbeat([]byte(text))
		wantRefusal(t, err, words)
	}
	// The unsupported versions of the future have a status of their own.
	if q, err := DecodeHeartbeat(body(t, map[string]string{"protocolVersion": "2"})); err != nil || q.ProtocolVersion != 2 {
		t.Errorf("a newer protocol version gives %+v, %v", q, err)
	}
}

func TestDecodeNamesTheField(t *testing.T) {
	var q CreateStream
	wantRefusal(t, Decode([]byte(`{"initialShardCount":"8"}`), &q), "body: initialShardCount cannot be a string")
	wantRefusal(t, Decode(nil, &q), "body: is empty")
	if err := Decode([]byte(` {"initialShardCount":8,"requestedBy":"ann","other":1} `), &q); err != nil || *q.InitialShardCount != 8 || q.RequestedBy != "ann" {
		t.Errorf("decoded %+v, %v", q, err)
	}
}

// What a coordinator accepts it can write down, and reads as the same again: the
// second encoding equals the first.
func FuzzDecodeHeartbeat(f *testing.F) {
	files, err := filepath.Glob("testdata/*.json")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range files {
		seed, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(seed)
	}
	f.Add([]byte(`{"protocolVersion":1,"requestId":"r","memberId":"a","memberEpoch":0,"metadataVersion":0,"runtimeConsumerCapacity":{"runtimeMaxConcurrency":1},` +
		`"ownedShards":[1,{"shardIndex":2}],"revokingShards":[{"shard":3,"state":"REVOKED"},{"shardIndex":4,"state":"DRAINING","inFlight":1}],` +
		`"shardProgress":[{"shardIndex":1,"missing":true}],"incarnation":"i2","stoppedIncarnation":"i1","maxWaitMs":1}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := sameBothWays(data); err != nil {
			t.Fatal(err)
		}
		first, err := DecodeHeartbeat(data)
		if err != nil {
			if !errors.Is(err, ErrInvalidRequest) {
				t.Fatalf("refused with %v", err)
			}
			return
		}
		encoded, err := json.Marshal(first)
		if err != nil {
			t.Fatalf("what was accepted cannot be written: %v", err)
		}
		second, err := DecodeHeartbeat(encoded)
		if err != nil {
			t.Fatalf("what was written is refused: %v\n%s", err, encoded)
		}
		again, err := json.Marshal(second)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(encoded, again) {
			t.Fatalf("written as\n%s\nand then as\n%s", encoded, again)
		}
		if fmt.Sprint(*first) != fmt.Sprint(*second) {
			t.Fatalf("read as\n%+v\nand then as\n%+v", *first, *second)
		}
	})
}
