package telemetry

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// A scraper that goes away in the middle of an answer is one line, not hundreds.
func TestABrokenScrapeIsOneLine(t *testing.T) {
	var out bytes.Buffer
	now := time.Unix(1_000_000, 0)
	l := &scrapeLog{log: slog.New(slog.NewTextHandler(&out, nil)), now: func() time.Time { return now }}
	for range 300 {
		l.Println("error encoding and sending metric family:", "broken pipe")
	}
	if n := strings.Count(out.String(), "\n"); n != 1 {
		t.Errorf("%d lines, want 1: %s", n, out.String())
	}
	now = now.Add(scrapeLogPause)
	l.Println("error gathering metrics")
	if got := out.String(); strings.Count(got, "\n") != 2 || !strings.Contains(got, "not_logged_before=299") {
		t.Errorf("later: %s", got)
	}
}
