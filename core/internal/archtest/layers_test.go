package archtest

import (
	"slices"
	"strings"
	"testing"
)

// layers says for each package of core which others its product code imports,
// besides internal/rules, which is open to all. A package that is not listed
// has no place yet: give it one here, and say why in the commit.
//
// Tests may import any package of core: a member is tried against a group, a
// store by the conformance suite. What they may not do is leave core.
var layers = map[string][]string{
	// The vocabulary and the arithmetic; they know nothing of ours.
	"protocol":       {},
	"routing":        {},
	"assign":         {},
	"internal/rules": {},
	"internal/spans": {},

	// The state machines, each for itself.
	"group":  {"protocol", "routing", "assign", "internal/spans"},
	"stream": {"protocol", "routing", "assign", "internal/spans"},
	"member": {"protocol", "routing", "assign"},

	// What a coordinator decides with them.
	"engine": {"protocol", "routing", "assign", "group", "stream", "member"},

	// What the world gives the core: bytes and keys.
	"port":          {"protocol"},
	"port/porttest": {"protocol", "port"},
	"memstore":      {"protocol", "port"},

	// The runner carries the engine's effects out; it chooses no store.
	"service": {"protocol", "routing", "assign", "group", "stream", "engine", "port", "internal/spans"},

	// Tools of tests.
	"internal/archtest": {},
	"internal/scenario": {},
}

// unbound are the packages that may import all of core.
var unbound = []string{"sim"}

// checkImports holds the imports of one file to the standard library and to the
// layers.
func checkImports(s source) []string {
	var complaints []string
	for _, imp := range s.imports() {
		target, ours := strings.CutPrefix(imp.path, modulePath+"/")
		switch {
		case imp.path == "C":
			complaints = append(complaints, s.complain(imp.pos, "imports C: core is built without cgo"))
		case ours:
			if !s.test && !allowed(s.pkg, target) {
				complaints = append(complaints, s.complain(imp.pos, "%s may not import %s (see layers)", s.pkg, target))
			}
		case !isStandard(imp.path):
			complaints = append(complaints, s.complain(imp.pos, "imports %s: core imports the standard library and itself only", imp.path))
		}
	}
	return complaints
}

func allowed(from, to string) bool {
	for _, open := range unbound {
		if from == open || strings.HasPrefix(from, open+"/") {
			return true
		}
	}
	return to == "internal/rules" || slices.Contains(layers[from], to)
}

func hasPlace(pkg string) bool {
	_, listed := layers[pkg]
	return listed || slices.ContainsFunc(unbound, func(open string) bool {
		return pkg == open || strings.HasPrefix(pkg, open+"/")
	})
}

// isStandard tells the standard library by what it reserves for itself: first
// elements without a dot.
func isStandard(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return !strings.Contains(first, ".")
}

func TestCoreImportsStandardLibraryAndFollowsItsLayers(t *testing.T) {
	missing := map[string]bool{}
	for _, s := range sources(t) {
		if !hasPlace(s.pkg) && !missing[s.pkg] {
			missing[s.pkg] = true
			t.Errorf("package %s has no place in layers: add it with what it may import", s.pkg)
		}
		for _, complaint := range checkImports(s) {
			t.Error(complaint)
		}
	}
}

func TestLayersNameKnownPackages(t *testing.T) {
	for from, targets := range layers {
		for i, to := range targets {
			if !hasPlace(to) {
				t.Errorf("%s may import %s, which has no place in layers", from, to)
			}
			if slices.Contains(targets[:i], to) || to == from {
				t.Errorf("%s lists %s twice or lists itself", from, to)
			}
		}
	}
}

func TestLayersPointDownwards(t *testing.T) {
	// Depth-first over the table: a package that is reached from itself would
	// make the table mean nothing.
	var visit func(pkg string, above []string)
	visit = func(pkg string, above []string) {
		if slices.Contains(above, pkg) {
			t.Errorf("layers go in a circle: %s", strings.Join(append(above, pkg), " imports "))
			return
		}
		for _, next := range layers[pkg] {
			visit(next, append(slices.Clone(above), pkg))
		}
	}
	for pkg := range layers {
		visit(pkg, nil)
	}
}

func TestCheckImports(t *testing.T) {
	const ours = `"` + modulePath + `/`
	tests := []struct {
		name, file, imports string
		complaints          []string
	}{
		{"standard library", "group/a.go", `"encoding/json"; "time"`, nil},
		{"downwards", "group/a.go", ours + `protocol"; ` + ours + `assign"`, nil},
		{"rule switches", "assign/a.go", ours + `internal/rules"`, nil},
		{"upwards", "protocol/a.go", ours + `group"`, []string{"protocol may not import group"}},
		{"sideways", "stream/a.go", ours + `group"`, []string{"stream may not import group"}},
		{"switches know nobody", "internal/rules/a.go", ours + `group"`, []string{"internal/rules may not import group"}},
		{"the runner chooses no store", "service/a.go", ours + `memstore"`, []string{"service may not import memstore"}},
		{"a tool of tests in the product", "group/a.go", ours + `internal/scenario"`, []string{"group may not import internal/scenario"}},
		{"a tool of tests in a test", "group/a_test.go", ours + `internal/scenario"`, nil},
		{"the simulator sees all", "sim/a.go", ours + `memstore"; ` + ours + `member"`, nil},
		{"another module of ours", "group/a.go", `"github.com/redis-stream-coordinator/rsc/consumer"`, []string{"standard library and itself only"}},
		{"third party", "engine/a.go", `"golang.org/x/sync/errgroup"`, []string{"golang.org/x/sync/errgroup"}},
		{"third party in a test", "engine/a_test.go", `"github.com/google/go-cmp/cmp"`, []string{"github.com/google/go-cmp/cmp"}},
		{"cgo", "engine/a.go", `"C"`, []string{"imports C"}},
		{"several", "port/a.go", `"gopkg.in/yaml.v3"; ` + ours + `engine"`, []string{"gopkg.in/yaml.v3", "port may not import engine"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := mustParse(t, tt.file, "package p\nimport ("+tt.imports+")\n")
			expect(t, checkImports(s), tt.complaints)
		})
	}
}
