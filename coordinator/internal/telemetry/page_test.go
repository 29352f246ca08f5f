package telemetry

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"

	httpapi "github.com/redis-stream-coordinator/rsc/adapters/http"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
	"github.com/redis-stream-coordinator/rsc/core/stream"
)

// documented is a line of the page.
type documented struct {
	kind   string
	labels []string
}

// readPage returns what docs/metrics.md says, by name.
func readPage(t *testing.T) map[string]documented {
	t.Helper()
	repository := filepath.Join("..", "..", "..")
	if _, err := os.Stat(filepath.Join(repository, "go.work")); errors.Is(err, fs.ErrNotExist) {
		t.Skip("the module stands alone, without the repository's pages")
	}
	content, err := os.ReadFile(filepath.Join(repository, "docs", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	page := map[string]documented{}
	for line := range strings.Lines(string(content)) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) < 6 || !strings.HasPrefix(strings.TrimSpace(cells[1]), "`"+prefix) {
			continue
		}
		name := strings.Trim(cells[1], " `")
		if _, twice := page[name]; twice {
			t.Errorf("the page lists %s twice", name)
		}
		d := documented{kind: strings.TrimSpace(cells[2]), labels: []string{"coordinator"}}
		for label := range strings.SplitSeq(cells[3], ",") {
			if label = strings.TrimSpace(label); label != "" {
				d.labels = append(d.labels, label)
			}
		}
		slices.Sort(d.labels)
		page[name] = d
	}
	if len(page) < 50 {
		t.Fatalf("the page lists %d names", len(page))
	}
	return page
}

// busyWorld is one in which everything there is has happened.
func busyWorld(t *testing.T) *world {
	w := newWorld(t)
	w.stream(t, "orders", 4)
	w.settle(t, "orders", crowd(2)...)
	if _, err := w.c.CreateGroup(t.Context(), "orders", "nobody", protocol.CreateGroup{RequestedBy: "test"}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the new group is seen", func() bool { return len(w.c.Look(t.Context())) == 2 })
	eventually(t, "and has been read", func() bool {
		for _, look := range w.c.Look(t.Context()) {
			if look.View == nil {
				return false
			}
		}
		return true
	})
	w.roundDone(t)
	w.Served(httpapi.Served{Method: "GET", Route: "/coord/v1/streams", Status: 403, Code: "FORBIDDEN", Took: time.Millisecond})
	w.process.conflict("heartbeat", 1)
	w.Telemetry.streams.happened("orders", []stream.Event{stream.Resharding{Prefix: "orders", State: protocol.MigrationPreparing}})
	api := w.API(w.c)
	if _, err := api.Routing(t.Context(), "orders", "billing"); err != nil {
		t.Fatal(err)
	}
	four := 4
	if _, err := api.ScaleGroup(t.Context(), "orders", "billing", protocol.Scale{TargetShardCount: &four, RequestedBy: "test", Reason: "test"}); err != nil {
		t.Fatal(err)
	}
	if _, err := api.ScaleStream(t.Context(), "absent", protocol.Scale{TargetShardCount: &four, RequestedBy: "test", Reason: "test"}); err == nil {
		t.Fatal("a stream that does not exist was scaled")
	}
	w.fresh()
	return w
}

// The page lists what a scrape shows, and nothing else.
func TestPageListsWhatAScrapeShows(t *testing.T) {
	page := readPage(t)
	families := busyWorld(t).scrape(t)
	for name, f := range families {
		if !strings.HasPrefix(name, prefix) {
			if !strings.HasPrefix(name, "go_") && !strings.HasPrefix(name, "process_") {
				t.Errorf("%s is neither ours nor the runtime's", name)
			}
			continue
		}
		d, known := page[name]
		if !known {
			t.Errorf("docs/metrics.md does not list %s (%s)", name, strings.ToLower(f.GetType().String()))
			continue
		}
		if kind := strings.ToLower(f.GetType().String()); kind != d.kind {
			t.Errorf("%s is a %s, the page says %s", name, kind, d.kind)
		}
		for _, m := range f.GetMetric() {
			if got := labelNames(m); !slices.Equal(got, d.labels) {
				t.Errorf("%s has the labels %v, the page says %v", name, got, d.labels)
				break
			}
		}
		if f.GetHelp() == "" {
			t.Errorf("%s does not say what it is", name)
		}
	}
	for name := range page {
		if _, shown := families[name]; !shown {
			t.Errorf("docs/metrics.md lists %s, which a scrape does not show", name)
		}
	}
}

func labelNames(m *dto.Metric) []string {
	var names []string
	for _, l := range m.GetLabel() {
		names = append(names, l.GetName())
	}
	slices.Sort(names)
	return names
}

// promtool finds nothing wrong with a scrape but the names that are kept for existing
// dashboards.
func TestPromtoolAcceptsAScrape(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("promtool is not in PATH, and in CI this must run: scripts/test-setup.sh installs it")
		}
		t.Skip("SKIPPED: promtool is not in PATH, so THE FORM OF THE METRICS WAS NOT CHECKED")
	}
	text := busyWorld(t).text(t)
	var said bytes.Buffer
	cmd := exec.CommandContext(t.Context(), promtool, "check", "metrics")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(text), &said, &said
	err = cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	for line := range strings.Lines(said.String()) {
		name, _, _ := strings.Cut(line, " ")
		kept := strings.HasPrefix(name, prefix) && strings.HasSuffix(name, "_ms") && strings.Contains(line, "abbreviated units")
		if strings.TrimSpace(line) != "" && !kept {
			t.Errorf("promtool: %s", line)
		}
	}
	if exit != nil && exit.ExitCode() != 3 {
		t.Errorf("promtool ended with %d:\n%s", exit.ExitCode(), said.String())
	}
}
