package smoke

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/redis-stream-coordinator/rsc/e2e/faultkit"
)

// Where the rules are, and the page with an entry for each.
const (
	rulesFile      = "grafana/prometheus/rules.yml"
	rulesTestFile  = "grafana/prometheus/rules_test.yml"
	prometheusFile = "grafana/prometheus/prometheus.yml"
	runbookPage    = "docs/runbook.md"
	operationsPage = "docs/operations.md"
	runbookURL     = "https://github.com/redis-stream-coordinator/rsc/blob/main/" + runbookPage + "#"
)

type alertRule struct {
	Alert       string            `yaml:"alert"`
	Expr        string            `yaml:"expr"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

// alertRules returns all alerts.
func alertRules(tb testing.TB) []alertRule {
	tb.Helper()
	var file struct {
		Groups []struct {
			Rules []alertRule `yaml:"rules"`
		} `yaml:"groups"`
	}
	if err := yaml.Unmarshal(read(tb, rulesFile), &file); err != nil {
		tb.Fatal(err)
	}
	var all []alertRule
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	if len(all) == 0 {
		tb.Fatalf("%s has no rules: the test looks in the wrong place", rulesFile)
	}
	return all
}

func TestEveryAlertHasWhatSomebodyAtNightNeeds(t *testing.T) {
	runbook, operations := string(read(t, runbookPage)), string(read(t, operationsPage))
	seen := map[string]bool{}
	for _, r := range alertRules(t) {
		if seen[r.Alert] {
			t.Errorf("%s is there twice", r.Alert)
		}
		seen[r.Alert] = true
		if s := r.Labels["severity"]; s != "critical" && s != "warning" {
			t.Errorf("%s: severity %q, want critical or warning", r.Alert, s)
		}
		if r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
			t.Errorf("%s: lacks a summary or a description", r.Alert)
		}
		if got, want := r.Annotations["runbook_url"], runbookURL+strings.ToLower(r.Alert); got != want {
			t.Errorf("%s: links to %s, want %s", r.Alert, got, want)
		}
		_, entry, _ := strings.Cut(runbook, "\n## "+r.Alert+"\n")
		entry, _, _ = strings.Cut(entry, "\n## ")
		for _, part := range []string{"**Means.**", "**See.**", "**Do.**"} {
			if !strings.Contains(entry, part) {
				t.Errorf("%s: its entry in %s lacks %s", r.Alert, runbookPage, part)
			}
		}
		_, row, listed := strings.Cut(operations, "\n| "+r.Alert+" | ")
		row, _, _ = strings.Cut(row, "\n")
		if !listed || !strings.HasSuffix(row, "| "+r.Labels["severity"]+" |") {
			t.Errorf("%s: the table of %s has %q, and not its severity %s", r.Alert, operationsPage, row, r.Labels["severity"])
		}
	}
	for _, heading := range regexp.MustCompile(`(?m)^## (RSC\w+)$`).FindAllStringSubmatch(runbook, -1) {
		if !seen[heading[1]] {
			t.Errorf("%s has an entry for %s, which is no alert", runbookPage, heading[1])
		}
	}
}

// promtool runs it in a folder and returns what it says.
func promtool(t *testing.T, folder string, args ...string) string {
	t.Helper()
	faultkit.Need(t, "promtool")
	command := exec.CommandContext(t.Context(), "promtool", args...)
	command.Dir = folder
	out, err := command.CombinedOutput()
	if err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

func TestPrometheusAcceptsTheConfiguration(t *testing.T) {
	out := promtool(t, filepath.Join(root, "grafana", "prometheus"), "check", "config", "prometheus.yml")
	if n := len(alertRules(t)); !strings.Contains(out, fmt.Sprintf("%d rules found", n)) {
		t.Errorf("promtool does not find the %d rules:\n%s", n, out)
	}
}

// Every alert fires where it should, and not where it should not.
func TestAlertsFireAndDoNotFire(t *testing.T) {
	promtool(t, filepath.Join(root, "grafana", "prometheus"), "test", "rules", "rules_test.yml")
	var file struct {
		Tests []struct {
			Cases []struct {
				Alert  string      `yaml:"alertname"`
				Alerts []yaml.Node `yaml:"exp_alerts"`
			} `yaml:"alert_rule_test"`
		} `yaml:"tests"`
	}
	if err := yaml.Unmarshal(read(t, rulesTestFile), &file); err != nil {
		t.Fatal(err)
	}
	fires, rests := map[string]bool{}, map[string]bool{}
	for _, one := range file.Tests {
		for _, c := range one.Cases {
			if len(c.Alerts) > 0 {
				fires[c.Alert] = true
			} else {
				rests[c.Alert] = true
			}
		}
	}
	for _, r := range alertRules(t) {
		if !fires[r.Alert] || !rests[r.Alert] {
			t.Errorf("%s: is tried firing: %v, not firing: %v; both are needed", r.Alert, fires[r.Alert], rests[r.Alert])
		}
	}
}

// plain are values for the variables of the dashboards that leave an expression
// what it is.
var plain = map[string]string{
	"__rate_interval": "5m", "stream": "orders", "group": "billing", "member": ".*", "route": ".*", "coordinator": ".*",
}

// Prometheus itself parses every expression of the dashboards: it is given them as
// rules.
func TestPrometheusParsesEveryExpressionOfTheDashboards(t *testing.T) {
	type rule struct {
		Record string `yaml:"record"`
		Expr   string `yaml:"expr"`
	}
	type rules struct {
		Name  string `yaml:"name"`
		Rules []rule `yaml:"rules"`
	}
	var file struct {
		Groups []rules `yaml:"groups"`
	}
	count := 0
	for i, b := range boards(t) {
		group := rules{Name: b.UID}
		for j, e := range b.expressions() {
			group.Rules = append(group.Rules, rule{fmt.Sprintf("expr:%d:%d", i, j), filled(e.expr, plain)})
			count++
		}
		file.Groups = append(file.Groups, group)
	}
	var text bytes.Buffer
	if err := yaml.NewEncoder(&text).Encode(file); err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "expressions.yml"), text.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	if out := promtool(t, folder, "check", "rules", "expressions.yml"); !strings.Contains(out, fmt.Sprintf("%d rules found", count)) {
		t.Errorf("promtool does not find %d expressions:\n%s", count, out)
	}
}

// The rules know the coordinators by the name of the job that scrapes them.
func TestTheJobIsTheOneThatTheRulesKnow(t *testing.T) {
	var file struct {
		Scrapes []struct {
			Job string `yaml:"job_name"`
		} `yaml:"scrape_configs"`
	}
	if err := yaml.Unmarshal(read(t, prometheusFile), &file); err != nil {
		t.Fatal(err)
	}
	var jobs []string
	for _, s := range file.Scrapes {
		jobs = append(jobs, s.Job)
	}
	for _, found := range regexp.MustCompile(`job="([^"]+)"`).FindAllSubmatch(read(t, rulesFile), -1) {
		if !slices.Contains(jobs, string(found[1])) {
			t.Errorf("a rule asks for job %q, and %s has %q", found[1], prometheusFile, jobs)
		}
	}
}
