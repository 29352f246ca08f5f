package httpapi

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// apiPage is the page of the repository that lists the routes.
const apiPage = "../../docs/api.md"

const (
	routesBegin = "<!-- routes -->\n"
	routesEnd   = "<!-- end of routes -->"
)

// TestRoutesInTheDocumentation holds the table of all routes to the routes. Outside of
// the repository there is no such page.
func TestRoutesInTheDocumentation(t *testing.T) {
	if _, err := os.Stat("../../go.work"); err != nil {
		t.Skip("SKIPPED: outside of the repository there is no documentation")
	}
	page, err := os.ReadFile(apiPage)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := bytes.Cut(page, []byte(routesBegin))
	_, after, ends := bytes.Cut(rest, []byte(routesEnd))
	if !found || !ends {
		t.Fatalf("%s has no place for the routes", apiPage)
	}
	want := slices.Concat(before, []byte(routesBegin), routesTable(t), []byte(routesEnd), after)
	if *update {
		if err := os.WriteFile(apiPage, want, 0o600); err != nil {
			t.Fatal(err)
		}
		page = want
	}
	if !bytes.Equal(page, want) {
		t.Errorf("%s does not list the routes as they are: run go test ./... -run TestRoutesInTheDocumentation -update, and look at the difference", apiPage)
	}
}

// routesTable makes the table, by tag.
func routesTable(t *testing.T) []byte {
	t.Helper()
	a := &api{config: Config{AuthenticateMembers: true}.withDefaults()}
	list := a.routes()
	var b bytes.Buffer
	for _, tag := range tags {
		fmt.Fprintf(&b, "\n### %s\n\n%s\n\n", tag.name, tag.description)
		b.WriteString("| call | role | answers | |\n| --- | --- | --- | --- |\n")
		for i := range operations {
			o := &operations[i]
			if o.tag != tag.name {
				continue
			}
			r, there := routeOf(list, o)
			if !there {
				t.Errorf("%s %s is no route", o.method, o.path)
				continue
			}
			path := strings.TrimPrefix(o.describedPath(), DefaultBasePath)
			fmt.Fprintf(&b, "| `%s %s` | %s | %s | %s |\n", o.method, path, orDash(r.needs.String()), strings.Join(o.statuses(&r), " "), o.summary)
		}
	}
	b.WriteByte('\n')
	return b.Bytes()
}

func orDash(s string) string {
	if s == "" {
		return "–"
	}
	return s
}

// statuses are those that an operation may answer with, success first.
func (o *operation) statuses(r *route) []string {
	refused := slices.Sorted(maps.Keys(o.refusals(r)))
	out := []string{fmt.Sprintf("**%d**", o.status)}
	if o.id == "getProducerRoutingMetadata" {
		out = append(out, "304")
	}
	for _, status := range slices.Compact(slices.Sorted(slices.Values(append(refused, o.also...)))) {
		out = append(out, fmt.Sprint(status))
	}
	return out
}
