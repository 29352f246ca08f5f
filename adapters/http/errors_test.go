package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

var errTeapot = errors.New("dial tcp 10.1.2.3:6379: short and stout")

// wantRefusal checks status and body of a refusal; says is a part of the
// message.
func wantRefusal(t *testing.T, w *httptest.ResponseRecorder, status int, code, says string) {
	t.Helper()
	if w.Code != status {
		t.Errorf("status %d, want %d; body %s", w.Code, status, w.Body)
	}
	var body protocol.ErrorBody
	if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil {
		t.Fatalf("body is not JSON: %v: %s", err, w.Body)
	}
	if body.ErrorCode != code || body.Status != statusName(status) {
		t.Errorf("refused with %s %s, want %s %s", body.Status, body.ErrorCode, statusName(status), code)
	}
	if !strings.Contains(body.Message, says) || body.Message == "" {
		t.Errorf("message %q lacks %q", body.Message, says)
	}
}

func trimBase(path string) string { return strings.TrimPrefix(path, DefaultBasePath) }

func sortedList(header string) string {
	if header == "" {
		return ""
	}
	list := strings.Split(header, ", ")
	slices.Sort(list)
	return strings.Join(list, ", ")
}

func TestErrorsOfTheCoordinator(t *testing.T) {
	cases := []struct {
		err    *protocol.Error
		status int
		name   string
		retry  string
	}{
		{protocol.ErrInvalidRequest, 400, "BAD_REQUEST", ""},
		{protocol.ErrGroupExists, 409, "CONFLICT", ""},
		{protocol.ErrStreamExists, 409, "CONFLICT", ""},
		{protocol.ErrGroupNotFound, 404, "NOT_FOUND", ""},
		{protocol.ErrStreamNotFound, 404, "NOT_FOUND", ""},
		{protocol.ErrShardCountMismatch, 409, "CONFLICT", ""},
		{protocol.ErrGroupHasMembers, 409, "CONFLICT", ""},
		{protocol.ErrStreamHasGroups, 409, "CONFLICT", ""},
		{protocol.ErrLimit, 422, "UNPROCESSABLE_ENTITY", ""},
		{protocol.ErrConflict, 409, "CONFLICT", ""},
		{protocol.ErrStoreUnavailable, 503, "SERVICE_UNAVAILABLE", "1"},
		{protocol.ErrRedisNotConfigured, 503, "SERVICE_UNAVAILABLE", ""},
		{protocol.ErrProvisioning, 503, "SERVICE_UNAVAILABLE", "1"},
		{protocol.ErrMutexUnavailable, 503, "SERVICE_UNAVAILABLE", "1"},
		{protocol.ErrTerminating, 503, "SERVICE_UNAVAILABLE", "1"},
		{protocol.ErrCorrupt, 500, "INTERNAL_SERVER_ERROR", ""},
		{protocol.ErrTooLarge, 413, "PAYLOAD_TOO_LARGE", ""},
		{protocol.ErrUnauthorized, 401, "UNAUTHORIZED", ""},
		{protocol.ErrForbidden, 403, "FORBIDDEN", ""},
		{protocol.ErrRateLimit, 429, "TOO_MANY_REQUESTS", ""},
		{&protocol.Error{Code: "SOMETHING_NEW", Message: "unheard of"}, 500, "INTERNAL_SERVER_ERROR", ""},
	}
	for _, c := range cases {
		t.Run(c.err.Code, func(t *testing.T) {
			err := fmt.Errorf("load group orders/billing: %w: %w", c.err.With("what to do about it"), errTeapot)
			w := request{method: "GET", path: groupPath, auth: as("reader")}.send(t, newAPI(t, &fake{err: err}))
			want := fmt.Sprintf(`{"status":%q,"errorCode":%q,"message":"what to do about it"}`, c.name, c.err.Code)
			if w.Code != c.status || w.Body.String() != want {
				t.Errorf("got  %d %s\nwant %d %s", w.Code, w.Body, c.status, want)
			}
			if got := w.Header().Get("Retry-After"); got != c.retry {
				t.Errorf("Retry-After %q, want %q", got, c.retry)
			}
		})
	}
}

func TestUnknownErrorStaysInside(t *testing.T) {
	var log bytes.Buffer
	h := newAPI(t, &fake{err: errTeapot}, func(c *Config) { c.Logger = slog.New(slog.NewJSONHandler(&log, nil)) })
	w := request{method: "GET", path: groupPath, auth: as("reader")}.send(t, h)
	wantRefusal(t, w, 500, "INTERNAL_ERROR", "its log says why")
	if strings.Contains(w.Body.String(), "10.1.2.3") {
		t.Errorf("the caller is told internals: %s", w.Body)
	}
	if !strings.Contains(log.String(), errTeapot.Error()) || !strings.Contains(log.String(), `"level":"ERROR"`) {
		t.Errorf("the log lacks the cause: %s", log.String())
	}
}

func TestPanicIsAnError(t *testing.T) {
	var log bytes.Buffer
	h := newAPI(t, &fake{panics: "kaboom"}, func(c *Config) { c.Logger = slog.New(slog.NewJSONHandler(&log, nil)) })
	w := request{method: "GET", path: groupPath, auth: as("reader")}.send(t, h)
	wantRefusal(t, w, 500, "INTERNAL_ERROR", "")
	if strings.Contains(w.Body.String(), "kaboom") {
		t.Errorf("the caller is told internals: %s", w.Body)
	}
	if !strings.Contains(log.String(), "kaboom") || !strings.Contains(log.String(), "fake_test.go") {
		t.Errorf("the log lacks panic or stack: %s", log.String())
	}
}

func TestRequestLog(t *testing.T) {
	var log bytes.Buffer
	logger := slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	h := newAPI(t, &fake{}, func(c *Config) { c.Logger = logger })
	request{method: "GET", path: groupPath, auth: as("reader")}.send(t, h)
	var line struct {
		Msg, Method, Route, Path, User string
		Status                         int
	}
	if err := json.Unmarshal(log.Bytes(), &line); err != nil {
		t.Fatal(err)
	}
	if line.Msg != "request" || line.Route != DefaultBasePath+groupRoute || line.Path != groupPath || line.User != "reader" || line.Status != 200 {
		t.Errorf("logged %s", log.String())
	}
	for _, secret := range []string{"reads", as("reader")} {
		if strings.Contains(log.String(), secret) {
			t.Errorf("the log holds the secret %q: %s", secret, log.String())
		}
	}
}

func TestEveryStatusHasAName(t *testing.T) {
	for code, status := range statuses {
		if statusName(status) == "" {
			t.Errorf("%s: status %d has no name", code, status)
		}
	}
}
