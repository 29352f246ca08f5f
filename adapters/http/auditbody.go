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
	"strconv"

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
	e.RequestedBy = cut(saidText(q.RequestedBy), protocol.MaxNameBytes)
	e.Reason = cut(saidText(q.Reason), protocol.MaxReasonBytes)
	for _, field := range []struct{ name, value string }{
		{"initialShardCount", saidNumber(q.InitialShardCount)}, {"targetShardCount", saidNumber(q.TargetShardCount)},
		{"force", saidBoolean(q.Force)}, {"deleteData", saidBoolean(q.DeleteData)}, {"autoCreateGroups", saidBoolean(q.AutoCreateGroups)},
		{"groupStart", saidText(q.GroupStart)}, {"consumerGroup", saidText(q.ConsumerGroup)}, {"shards", saidShards(q.Shards)},
		{"heartbeatIntervalMs", saidNumber(q.HeartbeatIntervalMs)}, {"memberLeaseTtlMs", saidNumber(q.MemberLeaseTTLMs)},
		{"rebalanceTimeoutMs", saidNumber(q.RebalanceTimeoutMs)},
	} {
		if field.value == "" {
			continue // it is not there, or nothing that the field may be
		}
		if e.Summary == nil {
			e.Summary = map[string]string{}
		}
		e.Summary[field.name] = cut(field.value, maxAuditSummary)
	}
}

// saidText, saidNumber, saidBoolean and saidShards read a value of that kind. Any
// other, which may be something that went astray, is empty.
func saidText(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

func saidNumber(raw json.RawMessage) string {
	var n *float64
	if json.Unmarshal(raw, &n) != nil || n == nil {
		return ""
	}
	return string(raw)
}

func saidBoolean(raw json.RawMessage) string {
	var b *bool
	if json.Unmarshal(raw, &b) != nil || b == nil {
		return ""
	}
	return strconv.FormatBool(*b)
}

func saidShards(raw json.RawMessage) string {
	var list protocol.Shards
	if json.Unmarshal(raw, &list) != nil || list == nil {
		return ""
	}
	return fmt.Sprint(list)
}
