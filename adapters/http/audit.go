package httpapi

import (
	"context"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/redis-stream-coordinator/rsc/core/port"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// actions name what the routes that change something do, by method and path below
// the base path. Every route that asks for WRITE and is no GET stands here.
var actions = map[string]string{
	"POST " + streamRoute:                                        "CREATE_STREAM",
	"DELETE " + streamRoute:                                      "DELETE_STREAM",
	"POST " + streamRoute + "/scale":                             "SCALE_STREAM",
	"POST " + streamRoute + "/migrations/:reshardingId/rollback": "ROLLBACK_MIGRATION",
	"POST " + streamRoute + "/ignore-group":                      "IGNORE_GROUP",
	"POST " + streamRoute + "/give-up":                           "GIVE_UP_RECORDS",
	"POST " + groupRoute:                                         "CREATE_GROUP",
	"DELETE " + groupRoute:                                       "DELETE_GROUP",
	"POST " + groupRoute + "/scale":                              "SCALE_GROUP",
	"POST " + groupRoute + "/migrations/:reshardingId/rollback":  "ROLLBACK_MIGRATION",
	"PATCH " + groupRoute + "/timings":                           "CHANGE_TIMINGS",
	"POST " + groupRoute + "/members/:memberId/drain":            "DRAIN_MEMBER",
	"DELETE " + groupRoute + "/members/:memberId/drain":          "UNDRAIN_MEMBER",
	"POST /repair/index":                                         "REPAIR_INDEX",
}

// otherAction stands for a change that has no name.
const otherAction = "CHANGE"

// What a caller says is cut to these lengths, in bytes.
const (
	maxAuditPath    = 2048
	maxAuditQuery   = 1024
	maxAuditName    = 3 * protocol.MaxNameBytes // percent-encoded, if it is no name
	maxAuditHeader  = 256
	maxAuditSummary = 64
)

// auditTimeout bounds the keeping of an entry; the caller is answered when it is over.
const auditTimeout = 5 * time.Second

// requestIDs are the headers that name a request, the first that is there counts.
var requestIDs = []string{"X-Request-Id", "X-Correlation-Id", "X-Amzn-Trace-Id"}

// audit keeps a record of each attempt to change something, whatever becomes of it.
func (a *api) audit(c *gin.Context) {
	action, audited := a.actions[c.Request.Method+" "+c.FullPath()]
	if !audited {
		return
	}
	begun := time.Now()
	body := watchBody(c.Request)
	finished := false
	defer func() {
		e := a.auditEntry(c, action, begun)
		if !finished { // a panic passes through here
			e.Status, e.Outcome = http.StatusInternalServerError, port.AuditError
		}
		body.describe(&e)
		a.keep(c.Request.Context(), e)
	}()
	c.Next()
	finished = true
}

func (a *api) auditEntry(c *gin.Context, action string, begun time.Time) port.AuditEntry {
	r := c.Request
	e := port.AuditEntry{
		Timestamp:     begun.UTC(),
		Duration:      time.Since(begun),
		CoordinatorID: a.config.CoordinatorID,
		Action:        action,
		Outcome:       outcomeOf(c.Writer.Status()),
		Status:        c.Writer.Status(),
		Method:        r.Method,
		Path:          cut(r.URL.EscapedPath(), maxAuditPath),
		Query:         cut(hideSecrets(r.URL.RawQuery), maxAuditQuery),
		Route:         documentedRoute(c.FullPath()),
		StreamPrefix:  auditName(c, "streamPrefix"),
		ConsumerGroup: auditName(c, "consumerGroup"),
		MemberID:      auditName(c, "memberId"),
		ReshardingID:  auditName(c, "reshardingId"),
		ForwardedFor:  cut(r.Header.Get("X-Forwarded-For"), maxAuditHeader),
		UserAgent:     cut(r.UserAgent(), maxAuditHeader),
	}
	if address := callerOf(r); address.IsValid() {
		e.ClientAddress = address.String()
	}
	if p := principalOf(c); p != nil {
		e.Principal = p.username
		for _, role := range p.roles {
			e.Roles = append(e.Roles, string(role))
		}
	}
	for _, name := range requestIDs {
		if e.RequestID = cut(r.Header.Get(name), maxAuditHeader); e.RequestID != "" {
			break
		}
	}
	return e
}

// keep hands an entry over, also when the caller is gone. What cannot be kept goes to
// the log, whole.
func (a *api) keep(ctx context.Context, e port.AuditEntry) {
	ctx, done := context.WithTimeout(context.WithoutCancel(ctx), auditTimeout)
	defer done()
	if err := a.config.Audit.Record(ctx, e); err != nil {
		a.log.ErrorContext(ctx, "an audit entry was not kept where it should be, so it stands here", append(auditAttributes(&e), "err", err)...)
	}
}

func outcomeOf(status int) port.AuditOutcome {
	switch {
	case status < http.StatusBadRequest:
		return port.AuditSuccess
	case status == http.StatusUnauthorized:
		return port.AuditUnauthorized
	case status == http.StatusForbidden:
		return port.AuditForbidden
	case status == http.StatusInternalServerError:
		return port.AuditError
	}
	return port.AuditFailed
}

// auditName is a name in the path, as it was sent if it is none.
func auditName(c *gin.Context, parameter string) string {
	name, err := pathName(c, parameter)
	if err != nil {
		return cut(c.Param(parameter), maxAuditName)
	}
	return name
}

var routeParameter = regexp.MustCompile(`:(\w+)`)

// documentedRoute writes the router's pattern as the documents do.
func documentedRoute(pattern string) string {
	return routeParameter.ReplaceAllString(pattern, "{$1}")
}

// secretName is what parameters are called that hold secrets. None of ours does, but
// people try.
var secretName = regexp.MustCompile(`(?i)pass|pwd|secret|token|auth|key|credential`)

// hideSecrets masks the values of parameters that look like secrets.
func hideSecrets(query string) string {
	if !strings.Contains(query, "=") {
		return query
	}
	parts := strings.Split(query, "&")
	for i, part := range parts {
		name, _, _ := strings.Cut(part, "=")
		if decoded, err := url.QueryUnescape(name); err != nil || secretName.MatchString(decoded) {
			parts[i] = name + "=***"
		}
	}
	return strings.Join(parts, "&")
}

// cut shortens a text to at most n bytes that are valid UTF-8.
func cut(text string, n int) string {
	return strings.ToValidUTF8(text[:min(n, len(text))], "")
}

// auditedRoutes returns the actions by method and whole path.
func (a *api) auditedRoutes(list []route) map[string]string {
	audited := map[string]string{}
	for _, r := range list {
		if r.changes() {
			action, named := actions[r.method+" "+strings.TrimPrefix(r.path, a.config.BasePath)]
			if !named {
				action = otherAction
			}
			audited[r.method+" "+r.path] = action
		}
	}
	return audited
}

// auditAttributes are an entry for a log.
func auditAttributes(e *port.AuditEntry) []any {
	principal := e.Principal
	if principal == "" {
		principal = "anonymous"
	}
	attributes := []any{
		"action", e.Action, "outcome", string(e.Outcome), "status", e.Status, "principal", principal,
		"coordinatorId", e.CoordinatorID, "method", e.Method, "path", e.Path,
	}
	for _, text := range []struct{ name, value string }{
		{"requestedBy", e.RequestedBy}, {"reason", e.Reason}, {"requestId", e.RequestID},
		{"streamPrefix", e.StreamPrefix}, {"consumerGroup", e.ConsumerGroup}, {"memberId", e.MemberID}, {"reshardingId", e.ReshardingID},
		{"route", e.Route}, {"queryString", e.Query}, {"clientAddress", e.ClientAddress}, {"forwardedFor", e.ForwardedFor},
		{"userAgent", e.UserAgent}, {"requestBodySha256", e.BodySHA256},
	} {
		if text.value != "" {
			attributes = append(attributes, text.name, text.value)
		}
	}
	attributes = append(attributes, "durationMs", e.Duration.Milliseconds())
	if len(e.Roles) > 0 {
		attributes = append(attributes, "roles", e.Roles)
	}
	if len(e.Summary) > 0 {
		attributes = append(attributes, "requestSummary", summaryText(e.Summary))
	}
	return attributes
}

// summaryText writes a summary in the order of its names.
func summaryText(summary map[string]string) string {
	parts := make([]string, 0, len(summary))
	for name, value := range summary {
		parts = append(parts, name+"="+value)
	}
	slices.Sort(parts)
	return strings.Join(parts, " ")
}
