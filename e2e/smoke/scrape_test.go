package smoke

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

// scrapeTimeout is how long Prometheus waits for a coordinator.
func scrapeTimeout(tb testing.TB) time.Duration {
	tb.Helper()
	var file struct {
		Global struct {
			Timeout time.Duration `yaml:"scrape_timeout"`
		} `yaml:"global"`
	}
	if err := yaml.Unmarshal(read(tb, prometheusFile), &file); err != nil {
		tb.Fatal(err)
	}
	return file.Global.Timeout
}

// scrape returns the metrics of a coordinator, nothing when they do not come in
// the time that Prometheus gives it.
func (s *stack) scrape(name string, within time.Duration) string {
	ctx, done := context.WithTimeout(context.Background(), within)
	defer done()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.at[name]+"/metrics", http.NoBody)
	if err != nil {
		return ""
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return ""
	}
	defer func() { _ = response.Body.Close() }() // it was only read
	body, err := io.ReadAll(io.LimitReader(response.Body, maxQueryAnswer))
	if err != nil {
		return ""
	}
	return string(body)
}

// checkStoreThatHangs freezes Redis and requires that the coordinators say so, in
// time: a scrape that fails would say that it is they who are gone.
func (s *stack) checkStoreThatHangs(t *testing.T) {
	t.Helper()
	within := scrapeTimeout(t)
	s.running["redis"].Pause()
	for _, name := range []string{"coordinator-1", "coordinator-2"} {
		lines := []string{
			"redis_stream_coord_store_up{coordinator=\"" + name + "\"} 0",
			"redis_stream_coord_streams_redis_up{coordinator=\"" + name + "\"} 0",
			"redis_stream_coord_group_lag_known{coordinator=\"" + name + "\",group=\"billing\",stream=\"orders\"} 0",
		}
		// What was read of the shards is kept for a moment, so not the first scrape
		// says it all.
		eventually(t, name+" says in one scrape, and in time: "+strings.Join(lines, ", "), func() bool {
			said := s.scrape(name, within)
			return !slices.ContainsFunc(lines, func(line string) bool { return !strings.Contains(said, "\n"+line+"\n") })
		})
	}
	s.running["redis"].Resume()
	for _, name := range []string{"coordinator-1", "coordinator-2"} {
		eventually(t, name+" can coordinate again", s.healthy(name))
	}
	t.Log("Redis frozen for a while: both coordinators said so within a scrape, and went on")
}
