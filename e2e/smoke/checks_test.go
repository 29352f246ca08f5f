package smoke

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	// wholeRun is a range that holds all of it: what happened is in every rate.
	wholeRun = "10m"
	// scraped is how many targets there are: the coordinators, and Prometheus itself.
	scraped = 3
	// someRecords is what the producer publishes in 2 s.
	someRecords = 200
)

// checkTargets waits until everything that is scraped is up.
func (p *prometheus) checkTargets(tb testing.TB) {
	tb.Helper()
	var all []scrapeTarget
	defer func() { tb.Logf("targets: %d, up: %d", len(all), countUp(all)) }()
	eventually(tb, "all targets are up", func() bool {
		var err error
		all, err = p.targets()
		return err == nil && len(all) == scraped && countUp(all) == scraped
	})
}

func countUp(all []scrapeTarget) int {
	n := 0
	for _, t := range all {
		if t.Health == "up" {
			n++
		}
	}
	return n
}

// checkRules requires that all rules are evaluated without an error, and that no
// alert fires but those that may.
func (p *prometheus) checkRules(tb testing.TB, may ...string) {
	tb.Helper()
	var list []ruleState
	eventually(tb, "all rules have been evaluated", func() bool {
		var err error
		list, err = p.rules()
		return err == nil && len(list) > 0 && !slices.ContainsFunc(list, func(r ruleState) bool { return r.Health == "unknown" })
	})
	var fires []string
	for _, r := range list {
		if r.Health != "ok" {
			tb.Errorf("alert %s: %s: %s", r.Name, r.Health, r.LastError)
		}
		if r.State == "firing" {
			fires = append(fires, r.Name)
			if !slices.Contains(may, r.Name) {
				tb.Errorf("alert %s fires, and nothing is wrong", r.Name)
			}
		}
	}
	tb.Logf("alert rules: %d, firing: %d %s", len(list), len(fires), strings.Join(fires, ", "))
}

// checkDashboards requires a value for each variable and data for each expression.
func (p *prometheus) checkDashboards(tb testing.TB) {
	tb.Helper()
	for _, b := range boards(tb) {
		values := p.variables(tb, &b)
		var empty []expression
		all := b.expressions()
		// What a rate needs may come with the next scrape.
		for deadline := time.Now().Add(patience); ; time.Sleep(time.Second) {
			if empty = p.withoutData(tb, all, values); len(empty) == 0 || time.Now().After(deadline) {
				break
			}
		}
		for _, e := range empty {
			tb.Errorf("%s, panel %q has no data: %s", e.board, e.panel, filled(e.expr, values))
		}
		tb.Logf("dashboard %q: %d variables resolve, %d of %d expressions have data", b.Title, len(values)-1, len(all)-len(empty), len(all))
	}
}

// variables returns a value for each variable of a dashboard, in turn, as Grafana
// fills them in.
func (p *prometheus) variables(tb testing.TB, b *board) map[string]string {
	tb.Helper()
	values := map[string]string{"__rate_interval": wholeRun}
	for _, v := range b.Templating.List {
		if v.Type == "datasource" {
			continue
		}
		selector, label := labelValues(tb, filled(v.Definition, values))
		found, err := p.values(selector, label)
		switch {
		case err != nil:
			tb.Errorf("%s, variable %s: %v", b.Title, v.Name, err)
		case len(found) == 0:
			tb.Errorf("%s, variable %s has no values: %s", b.Title, v.Name, v.Definition)
		case v.Multi:
			values[v.Name] = v.AllValue
		default:
			values[v.Name] = found[0]
		}
	}
	return values
}

// withoutData returns the expressions that give no number.
func (p *prometheus) withoutData(tb testing.TB, all []expression, values map[string]string) []expression {
	tb.Helper()
	var empty []expression
	for _, e := range all {
		ask := p.lately
		if e.instant {
			ask = p.now
		}
		r, err := ask(filled(e.expr, values))
		if err != nil {
			tb.Fatalf("%s, panel %q: %v", e.board, e.panel, err)
		}
		if r.data() == 0 {
			empty = append(empty, e)
		}
	}
	return empty
}

// checkFlow waits until more records are written, and all of those that were there
// by now have been handed out.
func (p *prometheus) checkFlow(tb testing.TB) {
	tb.Helper()
	where := fmt.Sprintf("{stream=%q,group=%q}", stream, group)
	written := "sum(max by (shard) (redis_stream_coord_shard_entries_added_total" + where + "))"
	before := math.NaN()
	eventually(tb, "Prometheus knows how many records were written", func() bool {
		before = p.number(written)
		return !math.IsNaN(before)
	})
	eventually(tb, "records are written", func() bool { return p.number(written) >= before+someRecords })
	eventually(tb, "records are handed out and acknowledged", func() bool {
		lag, pending := p.number("max(redis_stream_coord_group_lag"+where+")"), p.number("max(redis_stream_coord_group_pending"+where+")")
		return lag+pending <= someRecords
	})
	tb.Logf("records flow: %.0f written so far, lag %.0f, pending %.0f", p.number(written),
		p.number("max(redis_stream_coord_group_lag"+where+")"), p.number("max(redis_stream_coord_group_pending"+where+")"))
}

// owners returns how many shards each member may read, as the coordinators say.
func (p *prometheus) owners() map[string]float64 {
	r, err := p.now(fmt.Sprintf("max by (member) (redis_stream_coord_member_granted_shards{stream=%q,group=%q} > 0)", stream, group))
	if err != nil {
		return nil
	}
	shards := map[string]float64{}
	for _, series := range r.Result {
		shards[series.Metric["member"]] = series.Value.value()
	}
	return shards
}

// checkOwners waits until exactly these members read all shards between them.
func (p *prometheus) checkOwners(tb testing.TB, members ...string) {
	tb.Helper()
	slices.Sort(members)
	eventually(tb, fmt.Sprintf("%s read %d shards", strings.Join(members, " and "), shards), func() bool {
		owners, sum := p.owners(), 0.0
		for _, n := range owners {
			sum += n
		}
		return sum == shards && slices.Equal(slices.Sorted(maps.Keys(owners)), members)
	})
}

// checkTargetDown waits until Prometheus has noticed that a coordinator is gone.
func (p *prometheus) checkTargetDown(tb testing.TB, name string) {
	tb.Helper()
	eventually(tb, name+" is seen to be down", func() bool {
		r, err := p.now(`redis_stream_coord_up{coordinator="` + name + `"}`)
		return err == nil && len(r.Result) == 0
	})
}
