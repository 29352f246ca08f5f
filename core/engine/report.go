package engine

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// MemberReport is what a member last said of itself, for display: it lies
// beside the aggregate, and nothing is decided by it.
type MemberReport struct {
	MetadataVersion int64                    `json:"metadataVersion"`
	Capacity        protocol.Capacity        `json:"capacity"`
	Owned           protocol.Shards          `json:"owned"`
	Revoking        []protocol.RevokingShard `json:"revoking,omitempty"`
	Progress        []protocol.ShardProgress `json:"progress,omitempty"`
}

// encodeReport writes the report of a heartbeat. Rows of shards that do not
// exist are left out; a row that was not sent this time is kept from earlier.
func encodeReport(q *protocol.Heartbeat, shards int, earlier map[protocol.ShardIndex]protocol.ShardProgress) ([]byte, error) {
	r := MemberReport{MetadataVersion: q.MetadataVersion, Capacity: q.Capacity, Owned: q.OwnedShards, Revoking: q.RevokingShards}
	said := make(map[protocol.ShardIndex]bool, len(q.ShardProgress))
	for _, p := range q.ShardProgress {
		if p.Shard >= 0 && int(p.Shard) < shards && !said[p.Shard] {
			said[p.Shard] = true
			r.Progress = append(r.Progress, p)
			earlier[p.Shard] = p
		}
	}
	for _, s := range q.OwnedShards {
		if p, known := earlier[s]; known && !said[s] {
			r.Progress = append(r.Progress, p)
		}
	}
	body, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encode report of %s: %w", q.MemberID, err)
	}
	return body, nil
}

// DecodeReport reads a report.
func DecodeReport(body []byte) (MemberReport, error) {
	var r MemberReport
	if err := json.Unmarshal(body, &r); err != nil {
		return MemberReport{}, fmt.Errorf("read report: %w", err)
	}
	return r, nil
}

// newStamp makes a stamp: a random id, and the time for people to read.
func newStamp(id string, now time.Time) string {
	return id + "." + strconv.FormatInt(now.UnixMilli(), 10)
}

// StampTime reads the time of a stamp, for display only.
func StampTime(stamp string) (time.Time, bool) {
	_, ms, found := strings.Cut(stamp, ".")
	n, err := strconv.ParseInt(ms, 10, 64)
	if !found || err != nil {
		return time.Time{}, false
	}
	return time.UnixMilli(n).UTC(), true
}
