package smoke

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// documented are the series that docs/metrics.md promises, with those that a
// histogram or summary consists of.
func documented(tb testing.TB) map[string]bool {
	tb.Helper()
	row := regexp.MustCompile("(?m)^\\| `(redis_stream_coord_[a-z0-9_]+)` \\| ([a-z]+) \\|")
	names := map[string]bool{}
	for _, found := range row.FindAllSubmatch(read(tb, "docs/metrics.md"), -1) {
		name, kind := string(found[1]), string(found[2])
		switch kind {
		case "histogram":
			names[name+"_bucket"], names[name+"_sum"], names[name+"_count"] = true, true, true
		case "summary":
			names[name], names[name+"_sum"], names[name+"_count"] = true, true, true
		default:
			names[name] = true
		}
	}
	if len(names) == 0 {
		tb.Fatal("docs/metrics.md has no tables of metrics: the test looks for something else")
	}
	return names
}

// foreign are series that others make: Prometheus itself, and the Go runtime and
// process collectors, whose names the page gives as go_* and process_*.
var foreign = regexp.MustCompile(`^(up|ALERTS|go_[a-z_]+|process_[a-z_]+)$`)

var (
	quoted    = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'`)
	matchers  = regexp.MustCompile(`\{[^}]*\}`)
	ranges    = regexp.MustCompile(`\[[^\]]*\]`)
	labelList = regexp.MustCompile(`\b(?:by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)`)
	numbers   = regexp.MustCompile(`\b[0-9][0-9.a-z]*\b`)
	word      = regexp.MustCompile(`[a-zA-Z_:][a-zA-Z0-9_:]*(\s*\()?`)
)

// keywords are the words of an expression that name nothing.
var keywords = []string{"and", "or", "unless", "bool", "offset", "by", "without", "on", "ignoring", "group_left", "group_right", "inf", "nan"}

// metricsIn returns the names of the series that an expression asks for.
func metricsIn(expr string) []string {
	for _, gone := range []*regexp.Regexp{quoted, matchers, ranges, labelList, numbers} {
		expr = gone.ReplaceAllString(expr, " ")
	}
	names := map[string]bool{}
	for _, found := range word.FindAllString(expr, -1) {
		if strings.HasSuffix(found, "(") || slices.Contains(keywords, strings.ToLower(found)) {
			continue // a function, or an aggregation
		}
		// An aggregation whose labels stood between it and what it is over.
		if slices.Contains([]string{"sum", "max", "min", "avg", "count", "topk"}, found) {
			continue
		}
		names[found] = true
	}
	return slices.Sorted(maps.Keys(names))
}

func TestMetricsIn(t *testing.T) {
	for expr, want := range map[string]string{
		`up == 0`: "up",
		`sum by (status) (rate(a_total{x="y{b}", z=~"c|d"}[5m]))`:                                        "a_total",
		`max without (coordinator) (a) > 0 and on (job) group_left (x) b`:                                "a b",
		`histogram_quantile(0.95, sum by (le) (rate(a_bucket[$__rate_interval]))) or on () vector(0)`:    "a_bucket",
		`clamp_min(a - max by (s) (deriv(b{s="$s"}[2m])), 0) unless 1e3 * c offset 5m`:                   "a b c",
		"sum without (instance) (increase(a{reason=~\"x\"}[10m]))\n  /\nsum without (instance) (b) > .5": "a b",
	} {
		if got := strings.Join(metricsIn(expr), " "); got != want {
			t.Errorf("%s: %s, want %s", expr, got, want)
		}
	}
}

// Nobody asks for a series that is not promised.
func TestDashboardsAndRulesUseMetricsThatExist(t *testing.T) {
	promised := documented(t)
	check := func(where, expr string) {
		names := metricsIn(expr)
		if len(names) == 0 {
			t.Errorf("%s asks for no series: %s", where, expr)
		}
		for _, name := range names {
			if !promised[name] && !foreign.MatchString(name) {
				t.Errorf("%s uses %s, which docs/metrics.md does not have: %s", where, name, expr)
			}
		}
	}
	for _, b := range boards(t) {
		for _, e := range b.expressions() {
			check(b.file+", "+e.panel, e.expr)
		}
		for _, v := range b.Templating.List {
			if v.Type == "query" {
				metric, _ := labelValues(t, v.Definition)
				check(b.file+", variable "+v.Name, metric)
			}
		}
	}
	for _, r := range alertRules(t) {
		check("alert "+r.Alert, r.Expr)
	}
}

// labelValues takes the query of a variable apart: label_values(selector, label).
func labelValues(tb testing.TB, query string) (selector, label string) {
	tb.Helper()
	inner, ok := strings.CutPrefix(query, "label_values(")
	inner, closed := strings.CutSuffix(inner, ")")
	comma := strings.LastIndex(inner, ",")
	if !ok || !closed || comma < 0 {
		tb.Fatalf("the query of a variable is not label_values(selector, label): %s", query)
	}
	return strings.TrimSpace(inner[:comma]), strings.TrimSpace(inner[comma+1:])
}
