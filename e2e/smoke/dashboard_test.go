package smoke

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	sdk "github.com/grafana/grafana-foundation-sdk/go/dashboard"
	query "github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/table"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

// board is what these tests look at in a dashboard.
type board struct {
	// file is its path from the top of the repository.
	file string

	UID        string   `json:"uid"`
	Title      string   `json:"title"`
	Tags       []string `json:"tags"`
	Panels     []panel  `json:"panels"`
	Templating struct {
		List []variable `json:"list"`
	} `json:"templating"`
}

type panel struct {
	ID         int         `json:"id"`
	Type       string      `json:"type"`
	Title      string      `json:"title"`
	Datasource *datasource `json:"datasource"`
	GridPos    struct {
		H, W, X, Y int
	} `json:"gridPos"`
	Targets []target `json:"targets"`
}

type target struct {
	Expr         string      `json:"expr"`
	LegendFormat string      `json:"legendFormat"`
	Instant      bool        `json:"instant"`
	Datasource   *datasource `json:"datasource"`
}

type datasource struct {
	Type string `json:"type"`
	UID  string `json:"uid"`
}

type variable struct {
	Name       string          `json:"name"`
	Type       string          `json:"type"`
	Definition string          `json:"definition"`
	Multi      bool            `json:"multi"`
	AllValue   string          `json:"allValue"`
	Query      json.RawMessage `json:"query"`
}

// boards reads all dashboards.
func boards(tb testing.TB) []board {
	tb.Helper()
	files, err := filepath.Glob(filepath.Join(root, "grafana", "dashboards", "*.json"))
	if err != nil {
		tb.Fatal(err)
	}
	all := make([]board, 0, len(files))
	for _, file := range files {
		b := board{file: "grafana/dashboards/" + filepath.Base(file)}
		if err := json.Unmarshal(read(tb, b.file), &b); err != nil {
			tb.Fatalf("%s: %v", b.file, err)
		}
		all = append(all, b)
	}
	if len(all) == 0 {
		tb.Fatal("there are no dashboards: the test looks in the wrong place")
	}
	return all
}

// expression is one query of a panel.
type expression struct {
	board, panel, expr string
	instant            bool
}

// expressions returns all queries of a dashboard.
func (b *board) expressions() []expression {
	var all []expression
	for _, p := range b.Panels {
		for _, t := range p.Targets {
			all = append(all, expression{board: b.Title, panel: p.Title, expr: t.Expr, instant: t.Instant})
		}
	}
	return all
}

// reference is a variable in an expression, $name or ${name}.
var reference = regexp.MustCompile(`\$(?:\{(\w+)\}|(\w+))`)

// filled replaces the variables of an expression, Grafana's own among them.
func filled(expr string, values map[string]string) string {
	return reference.ReplaceAllStringFunc(expr, func(found string) string {
		name := strings.Trim(found, "${}")
		value, known := values[name]
		if !known {
			return found
		}
		return value
	})
}

// followsSchema holds a dashboard to Grafana's own schema: no field that it does not
// know, also in the options of the kinds of panels that we use.
func followsSchema(content []byte) error {
	known := cog.NewRuntime() // there is one
	known.RegisterPanelcfgVariant(timeseries.VariantConfig())
	known.RegisterPanelcfgVariant(stat.VariantConfig())
	known.RegisterPanelcfgVariant(table.VariantConfig())
	known.RegisterDataqueryVariant(query.VariantConfig())
	//nolint:staticcheck // there is a newer model; files of this one are what every Grafana takes
	var d sdk.Dashboard
	if err := d.UnmarshalJSONStrict(content); err != nil {
		var list cog.BuildErrors // an empty list is no error, and yet not nil
		if !errors.As(err, &list) || len(list) > 0 {
			return err
		}
	}
	return d.Validate()
}

func TestDashboardsFollowTheSchema(t *testing.T) {
	for _, b := range boards(t) {
		if err := followsSchema(read(t, b.file)); err != nil {
			t.Errorf("%s: %v", b.file, err)
		}
	}
}

func TestWhatTheSchemaRefuses(t *testing.T) {
	content := string(read(t, boards(t)[0].file))
	for from, to := range map[string]string{
		`"schemaVersion"`:           `"shemaVersion"`,
		`"graphTooltip": 1`:         `"graphTooltip": "much"`,
		`"gridPos"`:                 `"gridPosition"`,
		`"drawStyle": "line"`:       `"drawStyle": "line", "colour": "blue"`,
		`"legendFormat"`:            `"legend"`,
		`"colorMode": "value"`:      `"colorModes": "value"`,
		`"fiscalYearStartMonth": 0`: `"fiscalYearStartMonth": 12`,
	} {
		broken := strings.Replace(content, from, to, 1)
		if broken == content {
			t.Fatalf("%s is not there to be broken", from)
		}
		if followsSchema([]byte(broken)) == nil {
			t.Errorf("%s in place of %s is taken", to, from)
		}
	}
}

// The schema has nothing to say about what a dashboard means by itself.
func TestDashboardsAreConsistent(t *testing.T) {
	uids := map[string]string{}
	for _, b := range boards(t) {
		for _, complaint := range b.complaints() {
			t.Errorf("%s: %s", b.file, complaint)
		}
		if other, taken := uids[b.UID]; taken {
			t.Errorf("%s: has the uid %q of %s", b.file, b.UID, other)
		}
		uids[b.UID] = b.file
	}
}

// complaints says what is wrong with a dashboard.
func (b *board) complaints() []string {
	var all []string
	say := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	if b.UID == "" || b.Title == "" || !slices.Contains(b.Tags, "redis-stream-coordinator") {
		say("a dashboard has a uid, a title, and the tag that links the dashboards")
	}
	declared := map[string]bool{"__rate_interval": true}
	for _, v := range b.Templating.List {
		for _, used := range reference.FindAllStringSubmatch(v.Definition, -1) {
			if name := used[1] + used[2]; !declared[name] {
				say("variable %s uses $%s, which is not declared before it", v.Name, name)
			}
		}
		declared[v.Name] = true
	}
	ids, places := map[int]string{}, map[[2]int]string{}
	used := map[string]bool{"datasource": true}
	for _, p := range b.Panels {
		if other, taken := ids[p.ID]; taken {
			say("panels %q and %q have the same id %d", other, p.Title, p.ID)
		}
		ids[p.ID] = p.Title
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other, taken := places[[2]int{x, y}]; taken || x >= 24 {
					say("panel %q lies over %q or outside", p.Title, other)
				}
				places[[2]int{x, y}] = p.Title
			}
		}
		if p.Type == "row" {
			continue
		}
		if len(p.Targets) == 0 {
			say("panel %q shows nothing", p.Title)
		}
		for _, t := range p.Targets {
			if p.Datasource == nil || t.Datasource == nil || *t.Datasource != (datasource{"prometheus", "${datasource}"}) {
				say("panel %q does not ask the chosen data source", p.Title)
			}
			for _, found := range reference.FindAllStringSubmatch(t.Expr, -1) {
				name := found[1] + found[2]
				if !declared[name] {
					say("panel %q uses $%s, which is not declared", p.Title, name)
				}
				used[name] = true
			}
		}
	}
	for _, v := range b.Templating.List {
		inVariable := slices.ContainsFunc(b.Templating.List, func(o variable) bool { return strings.Contains(o.Definition, "$"+v.Name) })
		if !used[v.Name] && !inVariable {
			say("variable %s changes nothing", v.Name)
		}
	}
	return all
}

func TestDashboardComplaints(t *testing.T) {
	good := boards(t)[0]
	if c := good.complaints(); len(c) != 0 {
		t.Fatalf("the first dashboard has faults of its own: %q", c)
	}
	breaks := map[string]func(*board){
		"has a uid":          func(b *board) { b.UID = "" },
		"same id":            func(b *board) { b.Panels[2].ID = b.Panels[1].ID },
		"lies over":          func(b *board) { b.Panels[2].GridPos = b.Panels[1].GridPos },
		"shows nothing":      func(b *board) { b.Panels[1].Targets = nil },
		"chosen data source": func(b *board) { b.Panels[1].Targets[0].Datasource = &datasource{"prometheus", "mine"} },
		"uses $who":          func(b *board) { b.Panels[1].Targets[0].Expr = `up{job="$who"}` },
		"changes nothing":    func(b *board) { b.Templating.List = append(b.Templating.List, variable{Name: "idle"}) },
	}
	for fragment, spoil := range breaks {
		var b board
		if err := json.Unmarshal(read(t, good.file), &b); err != nil {
			t.Fatal(err)
		}
		spoil(&b)
		if c := b.complaints(); len(c) != 1 && fragment != "lies over" || !strings.Contains(strings.Join(c, "\n"), fragment) {
			t.Errorf("want a complaint about %q, got %q", fragment, c)
		}
	}
}
