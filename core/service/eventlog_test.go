package service

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/redis-stream-coordinator/rsc/core/group"
	"github.com/redis-stream-coordinator/rsc/core/memstore"
	"github.com/redis-stream-coordinator/rsc/core/port"
	"github.com/redis-stream-coordinator/rsc/core/stream"
)

// documentedEvents returns what docs/logs.md says: level and attributes by event.
func documentedEvents(t *testing.T) map[string]string {
	t.Helper()
	top := filepath.Join("..", "..")
	if _, err := os.Stat(filepath.Join(top, "go.work")); errors.Is(err, fs.ErrNotExist) {
		t.Skip("the module stands alone, without the repository's pages")
	}
	page, err := os.ReadFile(filepath.Join(top, "docs", "logs.md"))
	if err != nil {
		t.Fatal(err)
	}
	events := map[string]string{}
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(line, "|")
		if len(cells) != 6 || !strings.HasPrefix(cells[1], " `") {
			continue
		}
		attributes := strings.FieldsFunc(cells[3], func(r rune) bool { return strings.ContainsRune(" ,`", r) })
		slices.Sort(attributes)
		events[strings.Trim(cells[1], " `")] = strings.TrimSpace(cells[2]) + " " + strings.Join(attributes, " ")
	}
	return events
}

// Every event has its line, with the attributes that the page names.
func TestEventsAreLoggedAsThePageSays(t *testing.T) {
	documented := documentedEvents(t)
	var log bytes.Buffer
	var heard int
	c, err := New(Config{
		ID: "c-1", Logger: slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		OnGroupEvents:  func(_ port.GroupKey, e []group.Event) { heard += len(e) },
		OnStreamEvents: func(_ string, e []stream.Event) { heard += len(e) },
	}, Ports{Store: memstore.New()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	groups := []group.Event{
		group.MemberJoined{}, group.MemberLeaving{}, group.MemberDraining{}, group.TargetChanged{}, group.CorrectionOpened{}, group.CorrectionEnded{},
		group.ShardsAdopted{}, group.TimingsChanged{}, group.ShardGranted{}, group.ShardRevoked{}, group.ShardReleased{}, group.RowsIgnored{}, group.StampsLost{},
	}
	for _, reason := range []group.EndReason{group.EndLeft, group.EndExpired, group.EndFenced, group.EndReplaced, group.EndStopped} {
		groups = append(groups, group.MemberEnded{Reason: reason})
	}
	streams := []stream.Event{
		stream.Created{}, stream.Deleting{}, stream.GroupChanged{Group: "billing"}, stream.Resharding{}, stream.ShardsRetired{Shards: []int{1}},
		stream.StraysFound{Shards: []int{1}}, stream.WritesLost{Version: 1, Seen: 2}, stream.GroupIgnored{Group: "billing"}, stream.ShardsGivenUp{Shards: []int{1}},
	}
	c.publish(port.GroupKey{Stream: "orders", Group: "billing"}, groups)
	c.publishStream("orders", streams)
	if heard != len(groups)+len(streams) {
		t.Errorf("%d events were passed on, want %d", heard, len(groups)+len(streams))
	}
	logged := map[string]bool{}
	for line := range strings.Lines(log.String()) {
		var attributes map[string]any
		if err := json.Unmarshal([]byte(line), &attributes); err != nil {
			t.Fatal(err)
		}
		event, _ := attributes["event"].(string)
		level, _ := attributes["level"].(string)
		if attributes["stream"] != "orders" || attributes["coordinator"] != "c-1" {
			t.Errorf("the line does not say where it happened: %s", line)
		}
		aboutGroup := strings.HasPrefix(event, "group_")
		if !aboutGroup {
			delete(attributes, "group")
		}
		for _, common := range []string{"time", "level", "msg", "event", "stream", "coordinator"} {
			delete(attributes, common)
		}
		names := make([]string, 0, len(attributes))
		for name := range attributes {
			names = append(names, name)
		}
		slices.Sort(names)
		if got := strings.ToLower(level) + " " + strings.Join(names, " "); got != documented[event] {
			t.Errorf("%s is logged as %q, the page says %q", event, got, documented[event])
		}
		logged[event] = true
	}
	for event := range documented {
		if !logged[event] {
			t.Errorf("the page lists %s, which is never logged", event)
		}
	}
	if len(logged) != heard {
		t.Errorf("%d kinds of events are logged, want %d", len(logged), heard)
	}
}
