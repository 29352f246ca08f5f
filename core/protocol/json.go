package protocol

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Shards is a list of shard indexes. It is written as objects and read as
// objects or bare integers, since clients of both kinds exist.
type Shards []ShardIndex

type shardID struct {
	ShardIndex *ShardIndex `json:"shardIndex"`
}

// MarshalJSON writes [{"shardIndex":n},…], [] for nil.
func (s Shards) MarshalJSON() ([]byte, error) {
	return s.appendJSON(make([]byte, 0, 2+20*len(s))), nil
}

// UnmarshalJSON reads objects with shardIndex, bare integers, and null as an
// empty list.
func (s *Shards) UnmarshalJSON(b []byte) error {
	var raw []shardRef
	if err := json.Unmarshal(b, &raw); err != nil {
		return err
	}
	*s = make(Shards, len(raw))
	for i, r := range raw {
		(*s)[i] = ShardIndex(r)
	}
	return nil
}

// shardRef reads {"shardIndex":n} or n.
type shardRef ShardIndex

func (r *shardRef) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '{' {
		var id shardID
		if err := json.Unmarshal(b, &id); err != nil {
			return err
		}
		if id.ShardIndex == nil {
			return errors.New("shardIndex is missing")
		}
		*r = shardRef(*id.ShardIndex)
		return nil
	}
	var n ShardIndex
	if bytes.Equal(b, []byte("null")) {
		return errors.New("null is not a shard")
	}
	if err := json.Unmarshal(b, &n); err != nil {
		return err
	}
	*r = shardRef(n)
	return nil
}

// named is the nested ({"shard":{"shardIndex":3}}) or flat ({"shardIndex":3})
// name of a shard inside a row.
type named struct {
	Shard      *shardRef   `json:"shard"`
	ShardIndex *ShardIndex `json:"shardIndex"`
}

func (n named) index() (ShardIndex, error) {
	switch {
	case n.Shard != nil:
		return ShardIndex(*n.Shard), nil
	case n.ShardIndex != nil:
		return *n.ShardIndex, nil
	}
	return 0, errors.New("shard is missing")
}

type nested struct {
	ShardIndex ShardIndex `json:"shardIndex"`
}

// UnmarshalJSON reads the nested and the flat form.
func (r *RevokingShard) UnmarshalJSON(b []byte) error {
	var w struct {
		named
		State    RevokeState `json:"state"`
		InFlight int         `json:"inFlight"`
		AckedAt  string      `json:"ackedAt"`
	}
	if err := json.Unmarshal(b, &w); err != nil {
		return err
	}
	i, err := w.index()
	if err != nil {
		return err
	}
	*r = RevokingShard{Shard: i, State: w.State, InFlight: w.InFlight, AckedAt: w.AckedAt}
	return nil
}

// MarshalJSON writes the nested form.
func (r RevokingShard) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Shard    nested      `json:"shard"`
		State    RevokeState `json:"state"`
		InFlight int         `json:"inFlight"`
		AckedAt  *string     `json:"ackedAt"`
	}{nested{r.Shard}, r.State, r.InFlight, orNull(r.AckedAt)})
}

// UnmarshalJSON reads the nested and the flat form.
func (p *ShardProgress) UnmarshalJSON(b []byte) error {
	var w struct {
		named
		StreamKey       string `json:"streamKey"`
		LastDeliveredID string `json:"lastDeliveredId"`
		LastAckedID     string `json:"lastAckedId"`
		PendingCount    int64  `json:"pendingCount"`
		UpdatedAt       string `json:"updatedAt"`
		Missing         bool   `json:"missing"`
	}
	if err := json.Unmarshal(b, &w); err != nil {
		return err
	}
	i, err := w.index()
	if err != nil {
		return err
	}
	*p = ShardProgress{
		Shard: i, StreamKey: w.StreamKey, LastDeliveredID: w.LastDeliveredID, LastAckedID: w.LastAckedID,
		PendingCount: w.PendingCount, UpdatedAt: w.UpdatedAt, Missing: w.Missing,
	}
	return nil
}

// MarshalJSON writes the nested form.
func (p ShardProgress) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Shard           nested  `json:"shard"`
		StreamKey       string  `json:"streamKey"`
		LastDeliveredID *string `json:"lastDeliveredId"`
		LastAckedID     *string `json:"lastAckedId"`
		PendingCount    int64   `json:"pendingCount"`
		UpdatedAt       *string `json:"updatedAt"`
		Missing         bool    `json:"missing,omitempty"`
	}{nested{p.Shard}, p.StreamKey, orNull(p.LastDeliveredID), orNull(p.LastAckedID), p.PendingCount, orNull(p.UpdatedAt), p.Missing})
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// DecodeHeartbeat reads and validates the body of a heartbeat. It keeps nothing of
// body.
// Errors: ErrInvalidRequest, with the name of the field.
func DecodeHeartbeat(body []byte) (*Heartbeat, error) {
	q, ok := scanHeartbeat(body)
	if !ok {
		var err error
		if q, err = decodeHeartbeat(body); err != nil {
			return nil, err
		}
	}
	if err := q.Validate(); err != nil {
		return nil, err
	}
	return q, nil
}

// decodeHeartbeat takes every form that a heartbeat may have, and says what is
// wrong with others.
func decodeHeartbeat(body []byte) (*Heartbeat, error) {
	// The pointers tell a field that is missing from one that is zero: an
	// absent epoch must not read as a join.
	var w struct {
		Heartbeat
		ProtocolVersion *int      `json:"protocolVersion"`
		RequestID       *string   `json:"requestId"`
		MemberID        *string   `json:"memberId"`
		MemberEpoch     *Epoch    `json:"memberEpoch"`
		MetadataVersion *int64    `json:"metadataVersion"`
		Capacity        *Capacity `json:"runtimeConsumerCapacity"`
		// Raw, so that an error inside can name the list it was found in.
		OwnedShards    json.RawMessage `json:"ownedShards"`
		RevokingShards json.RawMessage `json:"revokingShards"`
		ShardProgress  json.RawMessage `json:"shardProgress"`
	}
	if err := Decode(body, &w); err != nil {
		return nil, err
	}
	var bad complaints
	missing := func(field string, absent bool) {
		if absent {
			bad.addf(field, "is missing")
		}
	}
	missing("protocolVersion", w.ProtocolVersion == nil)
	missing("requestId", w.RequestID == nil)
	missing("memberId", w.MemberID == nil)
	missing("memberEpoch", w.MemberEpoch == nil)
	missing("metadataVersion", w.MetadataVersion == nil)
	missing("runtimeConsumerCapacity", w.Capacity == nil)
	if err := bad.err(); err != nil {
		return nil, err
	}
	q := w.Heartbeat
	q.ProtocolVersion, q.RequestID, q.MemberID = *w.ProtocolVersion, *w.RequestID, *w.MemberID
	q.MemberEpoch, q.MetadataVersion, q.Capacity = *w.MemberEpoch, *w.MetadataVersion, *w.Capacity
	list := func(field string, raw json.RawMessage, v any) {
		if len(raw) == 0 {
			return
		}
		if err := json.Unmarshal(raw, v); err != nil {
			bad.addf(field, "%s", reasonOf(err))
		}
	}
	list("ownedShards", w.OwnedShards, &q.OwnedShards)
	list("revokingShards", w.RevokingShards, &q.RevokingShards)
	list("shardProgress", w.ShardProgress, &q.ShardProgress)
	if err := bad.err(); err != nil {
		return nil, err
	}
	return &q, nil
}

// Decode reads one JSON value into v; unknown fields are ignored, anything
// after the value is refused.
// Errors: ErrInvalidRequest, with the name of the field where there is one.
func Decode(body []byte, v any) error {
	if len(bytes.TrimSpace(body)) == 0 {
		return ErrInvalidRequest.With("body: is empty, a JSON object is expected")
	}
	err := json.Unmarshal(body, v)
	if err == nil {
		return nil
	}
	return ErrInvalidRequest.With("body: %s", strings.Replace(reasonOf(err), "Heartbeat.", "", 1))
}

// reasonOf words a JSON error without the names of Go types.
func reasonOf(err error) string {
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		article := "a"
		if wrong.Value == "array" || wrong.Value == "object" {
			article = "an"
		}
		if wrong.Field != "" {
			return fmt.Sprintf("%s cannot be %s %s", wrong.Field, article, wrong.Value)
		}
		return fmt.Sprintf("cannot be %s %s", article, wrong.Value)
	}
	return err.Error()
}
