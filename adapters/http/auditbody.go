package httpapi

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"

	"github.com/redis-stream-coordinator/rsc/core/port"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// auditedBody are the fields of bodies that an audit tells; others may be anything. They are
// found as the handlers find them, whatever the case of their names.
type auditedBody struct {
	RequestedBy, Reason                                       json.RawMessage
	InitialShardCount, TargetShardCount, Force, DeleteData    json.RawMessage
	AutoCreateGroups, GroupStart, ConsumerGroup, Shards       json.RawMessage
	HeartbeatIntervalMs, MemberLeaseTTLMs, RebalanceTimeoutMs json.RawMessage
}

// watchedBody is a body that remembers what the handler reads of it.
type watchedBody struct {
	io.ReadCloser
	read  bytes.Buffer
	sum   hash.Hash
	whole bool
}

// watchBody puts a watched body in the place of the request's.
func watchBody(r *http.Request) *watchedBody {
	b := &watchedBody{ReadCloser: r.Body, sum: sha256.New()}
	if r.Body != nil {
		r.Body = b
	}
	return b
}

// Read passes on what the body has.
func (b *watchedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.sum.Write(p[:n])
	if room := protocol.MaxAdminBytes - b.read.Len(); room > 0 {
		b.read.Write(p[:min(n, room)])
	}
	b.whole = b.whole || errors.Is(err, io.EOF)
	return n, err
}

// describe tells an audit what the body asks for, as far as a handler has read it: of
// a request that was turned away before, nothing is known.
func (b *watchedBody) describe(e *port.AuditEntry) {
	if !b.whole {
		return
	}
	e.BodySHA256 = hex.EncodeToString(b.sum.Sum(nil))
	var q auditedBody
	if json.Unmarshal(b.read.Bytes(), &q) != nil {
		return // it was refused for that
	}
	e.RequestedBy = cut(scalar(q.RequestedBy), protocol.MaxNameBytes)
	e.Reason = cut(scalar(q.Reason), protocol.MaxReasonBytes)
	for _, field := range []struct {
		name string
		raw  json.RawMessage
	}{
		{"initialShardCount", q.InitialShardCount}, {"targetShardCount", q.TargetShardCount}, {"force", q.Force},
		{"deleteData", q.DeleteData}, {"autoCreateGroups", q.AutoCreateGroups}, {"groupStart", q.GroupStart},
		{"consumerGroup", q.ConsumerGroup}, {"shards", q.Shards}, {"heartbeatIntervalMs", q.HeartbeatIntervalMs},
		{"memberLeaseTtlMs", q.MemberLeaseTTLMs}, {"rebalanceTimeoutMs", q.RebalanceTimeoutMs},
	} {
		value := scalar(field.raw)
		if value == "" {
			continue // it is not there, or nothing that the field may be
		}
		if e.Summary == nil {
			e.Summary = map[string]string{}
		}
		e.Summary[field.name] = cut(value, maxAuditSummary)
	}
}

// scalar writes a text, a number, a bool or a list of shards for people; nothing else.
func scalar(raw json.RawMessage) string {
	var value any
	if len(raw) == 0 || json.Unmarshal(raw, &value) != nil {
		return ""
	}
	switch v := value.(type) {
	case string:
		return v
	case float64, bool:
		return string(raw)
	case []any:
		var shards protocol.Shards
		if json.Unmarshal(raw, &shards) == nil {
			return fmt.Sprint(shards)
		}
	}
	return ""
}
