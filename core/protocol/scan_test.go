package protocol

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

// sameBothWays says whether what the fast way takes is read the same by the slow one.
func sameBothWays(data []byte) error {
	fast, ok := scanHeartbeat(data)
	if !ok {
		return nil
	}
	slow, err := decodeHeartbeat(data)
	if err != nil {
		return fmt.Errorf("taken, but %w", err)
	}
	if !reflect.DeepEqual(fast, slow) {
		return fmt.Errorf("read as\n%+v\nand the slow way as\n%+v", *fast, *slow)
	}
	return nil
}

// The clients that there are must not end up on the slow way.
func TestHeartbeatsOfKnownClientsAreReadFast(t *testing.T) {
	bodies := map[string][]byte{"plain": body(t, nil)}
	files, err := filepath.Glob("testdata/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d examples, %v", len(files), err)
	}
	for _, name := range files {
		if bodies[name], err = os.ReadFile(name); err != nil {
			t.Fatal(err)
		}
	}
	own, err := json.Marshal(exampleHeartbeat())
	if err != nil {
		t.Fatal(err)
	}
	bodies["ours"] = own
	for name, data := range bodies {
		if _, ok := scanHeartbeat(data); !ok {
			t.Errorf("%s is not read fast:\n%s", name, data)
		}
		if err := sameBothWays(data); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// exampleHeartbeat is one of our consumer with ten shards and what it says of them.
func exampleHeartbeat() *Heartbeat {
	q := &Heartbeat{
		ProtocolVersion: Version, RequestID: "0123456789abcdef01234567", MemberID: "host-12345678", MemberName: "wörker 1", Incarnation: "m-0123456789abcdef01234567",
		MemberEpoch: 1764444444444, MetadataVersion: 1764444444445, Capacity: Capacity{MaxConcurrency: 16, AvailableConcurrency: 12}, MaxWaitMs: 4000,
		RevokingShards: []RevokingShard{{Shard: 99, State: RevokeRevoked, AckedAt: "2026-02-11T09:41:07.218Z"}, {Shard: 98, State: RevokeDraining, InFlight: 3}},
	}
	for i := range ShardIndex(10) {
		q.OwnedShards = append(q.OwnedShards, i)
		q.ShardProgress = append(q.ShardProgress, ShardProgress{
			Shard: i, StreamKey: fmt.Sprintf("orders:%d", i), LastDeliveredID: "1770802867004-0", LastAckedID: "1770802866991-0", PendingCount: 12,
			UpdatedAt: "2026-02-11T09:41:07.004512Z", Missing: i == 3,
		})
	}
	return q
}

func TestScanLeavesTheUnusualToTheSlowWay(t *testing.T) {
	for name, fields := range map[string]map[string]string{
		"an unknown field":     {"other": "1"},
		"another case":         {"memberName": "-", "MEMBERNAME": `"x"`},
		"an escape":            {"memberName": `"a\\u0062"`},
		"null":                 {"ownedShards": "null"},
		"a fraction":           {"maxWaitMs": "1.5"},
		"an exponent":          {"maxWaitMs": "1e3"},
		"a number too large":   {"maxWaitMs": "9223372036854775808"},
		"a zero in front":      {"maxWaitMs": `"@"`},
		"minus zero":           {"maxWaitMs": "-0"},
		"a shard too large":    {"ownedShards": "[4294967296]"},
		"a missing field":      {"memberEpoch": "-"},
		"a shard in two forms": {"revokingShards": `[{"shard":{"shardIndex":1},"shardIndex":2,"state":"REVOKED"}]`},
		"no shard":             {"shardProgress": `[{"pendingCount":1}]`},
		"a bare shard":         {"shardProgress": `[{"shard":1}]`},
		"text for a number":    {"memberEpoch": `"7"`},
		"number for a text":    {"memberId": "7"},
		"not UTF-8":            {"memberName": `"@"`},
	} {
		data := body(t, fields)
		// What is no JSON cannot be built like the rest.
		switch name {
		case "not UTF-8":
			data = bytes.Replace(data, []byte("@"), []byte{0xff}, 1)
		case "a zero in front":
			data = bytes.Replace(data, []byte(`"@"`), []byte("01"), 1)
		}
		if _, ok := scanHeartbeat(data); ok {
			t.Errorf("%s is taken: %s", name, data)
		}
	}
	whole := body(t, map[string]string{"ownedShards": `[1,{"shardIndex":2}]`, "shardProgress": `[{"shardIndex":1,"missing":true}]`})
	for i := range whole {
		if _, ok := scanHeartbeat(whole[:i]); ok {
			t.Errorf("half a heartbeat is taken: %s", whole[:i])
		}
	}
	for _, more := range []string{"x", "{}", ","} {
		if _, ok := scanHeartbeat(append(bytes.Clone(whole), more...)); ok {
			t.Errorf("taken with %q behind it", more)
		}
	}
	twice := bytes.Replace(whole, []byte(`"memberEpoch":7`), []byte(`"memberEpoch":7,"memberEpoch":8`), 1)
	if _, ok := scanHeartbeat(twice); ok {
		t.Errorf("taken with a field twice: %s", twice)
	}
}

func exampleResponse() *HeartbeatResponse {
	r := NewHeartbeatResponse(exampleHeartbeat(), StatusOK, "", DefaultTimings())
	r.GroupEpoch, r.AssignmentEpoch, r.MetadataVersion, r.Assignment.MetadataVersion = 1764444444444, 1764444444444, 1764444444445, 1764444444445
	for i := range ShardIndex(10) {
		r.Assignment.AssignedShards = append(r.Assignment.AssignedShards, AssignedShard{Shard: i, Epoch: 1764444444444})
	}
	return &r
}

func TestAppendJSONIsWhatTheLibraryMakes(t *testing.T) {
	library := func(v any) string {
		var b bytes.Buffer
		encoder := json.NewEncoder(&b)
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(v); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	for _, change := range []func(r *HeartbeatResponse){
		func(*HeartbeatResponse) {},
		func(r *HeartbeatResponse) { r.Assignment.PendingShards = Shards{0, 7, MaxShards - 1} },
		func(r *HeartbeatResponse) { r.Assignment.AssignedShards = []AssignedShard{} },
		func(r *HeartbeatResponse) { r.MemberEpoch, r.GroupEpoch = EpochLeave, math.MaxInt64 },
		func(r *HeartbeatResponse) { r.Reason, r.Status = "wait: \"x\" <b> & \\ \u2028 é\n", StatusRetry },
		func(r *HeartbeatResponse) { r.MemberID, r.ResponseTo = "\xff", "\x7f\x00" },
	} {
		r := exampleResponse()
		change(r)
		if got, want := string(r.AppendJSON(nil))+"\n", library(r); got != want {
			t.Errorf("is\n%swant\n%s", got, want)
		}
	}
	if got := string((&HeartbeatResponse{}).AppendJSON([]byte("x"))); !json.Valid([]byte(got[1:])) || got[0] != 'x' || bytes.Contains([]byte(got), []byte("null")) {
		t.Errorf("the zero value is %s", got)
	}
}

func BenchmarkDecodeHeartbeat(b *testing.B) {
	rich := exampleHeartbeat()
	lean := *rich
	lean.ShardProgress, lean.RevokingShards = []ShardProgress{}, []RevokingShard{}
	for name, q := range map[string]*Heartbeat{"rich": rich, "lean": &lean} {
		data, err := json.Marshal(q)
		if err != nil {
			b.Fatal(err)
		}
		for way, decode := range map[string]func([]byte) (*Heartbeat, error){"fast": DecodeHeartbeat, "slow": decodeHeartbeat} {
			b.Run(name+"/"+way, func(b *testing.B) {
				b.ReportAllocs()
				b.SetBytes(int64(len(data)))
				for b.Loop() {
					if _, err := decode(data); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func BenchmarkAppendJSON(b *testing.B) {
	r := exampleResponse()
	b.Run("ours", func(b *testing.B) {
		var text []byte
		b.ReportAllocs()
		for b.Loop() {
			text = r.AppendJSON(text[:0])
		}
	})
	b.Run("library", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := json.Marshal(r); err != nil {
				b.Fatal(err)
			}
		}
	})
}
