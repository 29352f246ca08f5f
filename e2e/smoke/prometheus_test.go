package smoke

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"testing"
	"time"
)

const (
	queryTimeout   = 20 * time.Second
	maxQueryAnswer = 32 << 20
)

// prometheus is a running Prometheus, asked by its API.
type prometheus struct {
	tb  testing.TB
	url string
}

// ask reads the data of an answer into into.
func (p *prometheus) ask(path string, query url.Values, into any) error {
	ctx, done := context.WithTimeout(context.WithoutCancel(p.tb.Context()), queryTimeout)
	defer done()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+path+"?"+query.Encode(), http.NoBody)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }() // it was only read
	body, err := io.ReadAll(io.LimitReader(response.Body, maxQueryAnswer))
	if err != nil {
		return err
	}
	var answer struct {
		Status string          `json:"status"`
		Error  string          `json:"error"`
		Data   json.RawMessage `json:"data"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return fmt.Errorf("%s: %s: %w", path, response.Status, err)
	}
	if answer.Status != "success" {
		return fmt.Errorf("%s: %s", path, answer.Error)
	}
	return json.Unmarshal(answer.Data, into)
}

// ready reports whether it answers.
func (p *prometheus) ready() bool {
	var build struct{}
	return p.ask("/api/v1/status/buildinfo", nil, &build) == nil
}

// sample is a time and a value, as Prometheus writes them.
type sample [2]any

func (s sample) value() float64 {
	text, ok := s[1].(string)
	if !ok {
		return math.NaN()
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return math.NaN()
	}
	return v
}

type result struct {
	Result []struct {
		Metric map[string]string `json:"metric"`
		Value  sample            `json:"value"`
		Values []sample          `json:"values"`
	} `json:"result"`
}

// data counts the numbers in a result; NaN is none.
func (r *result) data() int {
	n := 0
	for _, series := range r.Result {
		for _, s := range append(series.Values, series.Value) {
			if !math.IsNaN(s.value()) {
				n++
			}
		}
	}
	return n
}

// now asks for an expression as a table does.
func (p *prometheus) now(expr string) (r result, err error) {
	err = p.ask("/api/v1/query", url.Values{"query": {expr}}, &r)
	return r, err
}

// lately asks for an expression over the last minutes as a graph does.
func (p *prometheus) lately(expr string) (r result, err error) {
	end := time.Now()
	err = p.ask("/api/v1/query_range", url.Values{
		"query": {expr}, "step": {"5"},
		"start": {strconv.FormatInt(end.Add(-5*time.Minute).Unix(), 10)}, "end": {strconv.FormatInt(end.Unix(), 10)},
	}, &r)
	return r, err
}

// number is the value of an expression with one series, NaN when there is none.
func (p *prometheus) number(expr string) float64 {
	r, err := p.now(expr)
	if err != nil || len(r.Result) != 1 {
		return math.NaN()
	}
	return r.Result[0].Value.value()
}

// values are those of a label of the series that a selector finds.
func (p *prometheus) values(selector, label string) (list []string, err error) {
	err = p.ask("/api/v1/label/"+url.PathEscape(label)+"/values", url.Values{"match[]": {selector}}, &list)
	return list, err
}

// scrapeTarget is one of those that are scraped.
type scrapeTarget struct {
	Labels    map[string]string `json:"labels"`
	Health    string            `json:"health"`
	LastError string            `json:"lastError"`
}

func (p *prometheus) targets() ([]scrapeTarget, error) {
	var all struct {
		Active []scrapeTarget `json:"activeTargets"`
	}
	err := p.ask("/api/v1/targets", url.Values{"state": {"active"}}, &all)
	return all.Active, err
}

// ruleState is a rule as Prometheus evaluates it.
type ruleState struct {
	Name      string `json:"name"`
	State     string `json:"state"`
	Health    string `json:"health"`
	LastError string `json:"lastError"`
}

func (p *prometheus) rules() ([]ruleState, error) {
	var all struct {
		Groups []struct {
			Rules []ruleState `json:"rules"`
		} `json:"groups"`
	}
	err := p.ask("/api/v1/rules", nil, &all)
	var list []ruleState
	for _, g := range all.Groups {
		list = append(list, g.Rules...)
	}
	return list, err
}
