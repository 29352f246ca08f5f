package sql_test

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"github.com/redis-stream-coordinator/rsc/core/port"
)

// testAudit: each list keeps its newest entries, and those that were refused share one.
func testAudit(t *testing.T, p place) {
	const most = 5
	cfg := p.config()
	audit := open(t, cfg).Audit(most)
	record := func(e port.AuditEntry) {
		if err := audit.Record(t.Context(), e); err != nil {
			t.Errorf("record: %v", err)
		}
	}
	record(port.AuditEntry{StreamPrefix: "orders", Reason: "日本🙂"})
	record(port.AuditEntry{StreamPrefix: "orders", ConsumerGroup: "billing"})
	var recording sync.WaitGroup
	for range 4 {
		recording.Go(func() {
			for range 10 {
				record(port.AuditEntry{StreamPrefix: "Orders"})
				record(port.AuditEntry{StreamPrefix: strings.Repeat("x", 10_000), Outcome: port.AuditForbidden})
			}
		})
	}
	recording.Wait()
	// Those that were written together did not see each other.
	record(port.AuditEntry{StreamPrefix: "Orders", Reason: "last"})
	record(port.AuditEntry{Outcome: port.AuditUnauthorized})
	rows, err := cfg.DB.QueryContext(t.Context(), "SELECT kind, stream, entry FROM "+cfg.TablePrefix+"audit ORDER BY id") //nolint:gosec // the prefix is ours
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	count := map[string]int{}
	last := map[string]string{}
	for rows.Next() {
		var kind int
		var stream, text []byte
		var entry struct{ Reason string }
		if err := rows.Scan(&kind, &stream, &text); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, &entry); err != nil {
			t.Fatal(err)
		}
		name := string(rune('0'+kind)) + string(stream)
		count[name]++
		last[name] = entry.Reason
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int{"0": most, "1Orders": most, "1orders": 1, "2orders": 1} {
		if count[name] != want {
			t.Errorf("list %q has %d entries, want %d", name, count[name], want)
		}
	}
	if last["1Orders"] != "last" || last["1orders"] != "日本🙂" {
		t.Errorf("the last entries say %q", last)
	}
}
