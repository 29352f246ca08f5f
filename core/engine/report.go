package engine

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
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

// maxRowText bounds the texts of one row of a report, all together. Keys, ids
// and times are far shorter.
const maxRowText = 1024

// pause is how long a report need not be written again with what q says. With steady
// it owns exactly what the ledger gives it.
func (r *reported) pause(q *protocol.Heartbeat, steady bool) time.Duration {
	switch {
	case len(q.RevokingShards) > 0 || !r.sameShards(q, steady):
		return 0
	case len(q.ShardProgress) > 0 || r.capacity != q.Capacity || r.version != q.MetadataVersion:
		return reportEvery
	}
	return repeatEvery
}

// sameShards reports whether q owns what the last report says. A member that owns
// what it is to own does so for as long as it keeps its epoch, so its shards are
// compared once.
func (r *reported) sameShards(q *protocol.Heartbeat, steady bool) bool {
	if steady && r.steady && r.epoch == q.MemberEpoch {
		return true
	}
	same := slices.Equal(r.owned, q.OwnedShards)
	if same && steady {
		r.epoch, r.steady = q.MemberEpoch, true
	}
	return same
}

// encodeReport writes the report of a heartbeat for a stream with so many
// shards. Rows of shards that do not exist or that the member does not list, rows
// that come a second time, and rows with absurd texts are left out. A row of
// progress that was not sent this time is kept from earlier, as long as its shard
// is listed.
func encodeReport(q *protocol.Heartbeat, shards int, earlier map[protocol.ShardIndex]protocol.ShardProgress) ([]byte, error) {
	r := MemberReport{MetadataVersion: q.MetadataVersion, Capacity: q.Capacity}
	listed := make(map[protocol.ShardIndex]bool, len(q.OwnedShards)+len(q.RevokingShards))
	list := func(s protocol.ShardIndex) bool {
		fresh := s >= 0 && int(s) < shards && !listed[s]
		if fresh {
			listed[s] = true
		}
		return fresh
	}
	for _, s := range q.OwnedShards {
		if list(s) {
			r.Owned = append(r.Owned, s)
		}
	}
	for _, v := range q.RevokingShards {
		if len(v.AckedAt) <= maxRowText && list(v.Shard) {
			r.Revoking = append(r.Revoking, v)
		}
	}
	said := make(map[protocol.ShardIndex]bool, len(q.ShardProgress))
	for _, p := range q.ShardProgress {
		text := len(p.StreamKey) + len(p.LastDeliveredID) + len(p.LastAckedID) + len(p.UpdatedAt)
		if listed[p.Shard] && !said[p.Shard] && text <= maxRowText {
			said[p.Shard] = true
			r.Progress = append(r.Progress, p)
			earlier[p.Shard] = p
		}
	}
	maps.DeleteFunc(earlier, func(s protocol.ShardIndex, _ protocol.ShardProgress) bool { return !listed[s] })
	for _, s := range r.Owned {
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

// newMark makes what stands in place of a stamp that was lost: as unique, but it
// tells of no heartbeat.
func newMark(id string) string { return id + markEnd }

func isMark(stamp string) bool { return strings.HasSuffix(stamp, markEnd) }

const markEnd = ".lost"

// StampTime reads the time of a stamp, for display only.
func StampTime(stamp string) (time.Time, bool) {
	_, ms, found := strings.Cut(stamp, ".")
	n, err := strconv.ParseInt(ms, 10, 64)
	if !found || err != nil {
		return time.Time{}, false
	}
	return time.UnixMilli(n).UTC(), true
}
