package port

import (
	"context"
	"encoding/json"
	"time"
)

// Audit keeps a record of who changed what, or tried to. Its methods are called
// concurrently.
type Audit interface {
	// Record keeps an entry and returns when it is kept. An implementation bounds
	// what it keeps, and how long it takes.
	// Errors: whatever keeps it from keeping the entry; the caller then has to put it
	// elsewhere.
	Record(ctx context.Context, e AuditEntry) error
}

// AuditOutcome sums up how an attempt to change something ended.
type AuditOutcome string

// The outcomes.
const (
	// AuditSuccess: it was carried out.
	AuditSuccess AuditOutcome = "SUCCESS"
	// AuditFailed: it was refused for what it asked, or could not be carried out.
	AuditFailed AuditOutcome = "FAILED"
	// AuditUnauthorized: nobody knows who asked.
	AuditUnauthorized AuditOutcome = "UNAUTHORIZED"
	// AuditForbidden: whoever asked may not.
	AuditForbidden AuditOutcome = "FORBIDDEN"
	// AuditError: the coordinator itself failed on it.
	AuditError AuditOutcome = "ERROR"
)

// AuditEntry is one attempt to change something. Its texts come from the caller,
// cut to a bounded length; one that is empty was not given.
type AuditEntry struct {
	// Timestamp is when the attempt arrived, Duration how long it took.
	Timestamp time.Time
	Duration  time.Duration
	// CoordinatorID names the coordinator that was asked.
	CoordinatorID string
	// Action is what was to be done, such as CREATE_STREAM.
	Action  string
	Outcome AuditOutcome
	// Status is the HTTP status of the answer.
	Status int
	// Principal is the user who asked, Roles are the user's; empty where nobody
	// knows.
	Principal string
	Roles     []string
	// Method, Path and Query are those of the request, Route is the pattern that the
	// path fits.
	Method, Path, Query, Route string
	// StreamPrefix, ConsumerGroup, MemberID and ReshardingID are what it was about, as
	// far as the path names them.
	StreamPrefix, ConsumerGroup, MemberID, ReshardingID string
	// RequestID is what the caller calls the request.
	RequestID string
	// RequestedBy and Reason are from the body.
	RequestedBy, Reason string
	// ClientAddress is the other end of the connection. ForwardedFor is what proxies,
	// or the caller, say about who is behind it.
	ClientAddress, ForwardedFor string
	UserAgent                   string
	// BodySHA256 is the digest of the whole body, in hex, if it was read.
	BodySHA256 string
	// Summary is what the body asks for, by field.
	Summary map[string]string
}

// Refused reports an attempt that was turned away before anybody looked at what it
// asks for. Anyone can make such attempts, any number of them and under any name.
func (e *AuditEntry) Refused() bool {
	return e.Outcome == AuditUnauthorized || e.Outcome == AuditForbidden
}

// MarshalJSON writes the documented fields; what was not given is null.
func (e AuditEntry) MarshalJSON() ([]byte, error) {
	roles, summary := e.Roles, e.Summary
	if roles == nil {
		roles = []string{}
	}
	if summary == nil {
		summary = map[string]string{}
	}
	return json.Marshal(struct {
		Timestamp         time.Time         `json:"timestamp"`
		CoordinatorID     string            `json:"coordinatorId"`
		Action            string            `json:"action"`
		Outcome           AuditOutcome      `json:"outcome"`
		Status            int               `json:"status"`
		Principal         *string           `json:"principal"`
		Roles             []string          `json:"roles"`
		Method            string            `json:"method"`
		Path              string            `json:"path"`
		QueryString       *string           `json:"queryString"`
		Route             *string           `json:"route"`
		StreamPrefix      *string           `json:"streamPrefix"`
		ConsumerGroup     *string           `json:"consumerGroup"`
		MemberID          *string           `json:"memberId"`
		ReshardingID      *string           `json:"reshardingId"`
		RequestID         *string           `json:"requestId"`
		RequestedBy       *string           `json:"requestedBy"`
		Reason            *string           `json:"reason"`
		ClientAddress     *string           `json:"clientAddress"`
		ForwardedFor      *string           `json:"forwardedFor"`
		UserAgent         *string           `json:"userAgent"`
		DurationMs        int64             `json:"durationMs"`
		RequestBodySHA256 *string           `json:"requestBodySha256"`
		RequestSummary    map[string]string `json:"requestSummary"`
	}{
		e.Timestamp, e.CoordinatorID, e.Action, e.Outcome, e.Status,
		orNull(e.Principal), roles,
		e.Method, e.Path, orNull(e.Query), orNull(e.Route),
		orNull(e.StreamPrefix), orNull(e.ConsumerGroup), orNull(e.MemberID), orNull(e.ReshardingID),
		orNull(e.RequestID), orNull(e.RequestedBy), orNull(e.Reason),
		orNull(e.ClientAddress), orNull(e.ForwardedFor), orNull(e.UserAgent),
		e.Duration.Milliseconds(), orNull(e.BodySHA256), summary,
	})
}

// orNull is what null stands for where a text is empty.
func orNull(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
