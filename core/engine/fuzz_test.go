package engine

import (
	"encoding/json"
	"reflect"
	"testing"
)

// FuzzDecodeReport: whatever lies beside a group, reading it neither panics nor
// gives a report that cannot be written again.
func FuzzDecodeReport(f *testing.F) {
	f.Add([]byte(`{}`))
	f.Add([]byte(`null`))
	f.Add([]byte(`{"metadataVersion":7,"capacity":{"runtimeMaxConcurrency":2,"availableConcurrency":1},"owned":[{"shardIndex":1},2],
		"revoking":[{"shardIndex":3,"state":"DRAINING","inFlight":1}],
		"progress":[{"shard":{"shardIndex":1},"streamKey":"orders:1","lastDeliveredId":"1-0","pendingCount":3,"missing":true}]}`))
	f.Add([]byte(`{"owned":[-1,99999999]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := DecodeReport(body)
		if err != nil {
			return
		}
		again, err := json.Marshal(r)
		if err != nil {
			t.Fatalf("%+v cannot be written: %v", r, err)
		}
		back, err := DecodeReport(again)
		if err != nil {
			t.Fatalf("%s cannot be read back: %v", again, err)
		}
		if len(r.Owned)+len(r.Revoking)+len(r.Progress) > 0 && !reflect.DeepEqual(r, back) {
			t.Fatalf("%s is read back as %+v, was %+v", again, back, r)
		}
	})
}
