package rules

import (
	"fmt"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// goRedis is the one Redis client of the project.
const goRedis = "github.com/redis/go-redis/v9"

// frameworks are what an application that only consumes or produces must never
// be made to carry. They stay in the modules whose rule allows them.
var frameworks = []string{
	"github.com/gin-gonic/gin",
	"github.com/knadh/koanf",
	"github.com/lmittmann/tint",
	"github.com/spf13/cobra",
	"go.opentelemetry.io",
}

// importRule says what the Go files of a module may import besides the standard
// library and the module itself.
type importRule struct {
	// ours are the folders of this repository, and what lies below them, that
	// product code may import; oursInTests come on top in tests.
	ours, oursInTests []string
	// thirdParty are the import paths from outside, and what lies below them,
	// that product code may use. Nil means any that is not a framework.
	thirdParty []string
	// frameworks says that the module may use them.
	frameworks bool
	// redisIn is the only package, below the module, whose product code talks to
	// Redis. Empty means any.
	redisIn string
}

// importRules by the folder of the module. core is missing on purpose: its rule
// is stricter and it proves that by itself.
var importRules = map[string]importRule{
	"adapters/http":  {ours: []string{"core"}, frameworks: true},
	"adapters/redis": {ours: []string{"core"}, redisIn: "internal/command"},
	"adapters/sql":   {ours: []string{"core"}},
	"consumer": {
		ours:        []string{"core/protocol", "core/member", "core/routing"},
		oursInTests: []string{"core"},
		thirdParty:  []string{goRedis},
	},
	"producer": {
		ours:        []string{"core/protocol", "core/member", "core/routing"},
		oursInTests: []string{"core"},
		thirdParty:  []string{goRedis},
	},
	"coordinator": {
		ours:       []string{"core", "adapters", "consumer", "producer"},
		frameworks: true,
	},
	"e2e": {ours: []string{"core", "adapters", "consumer", "producer", "coordinator"}},
}

// ruleFor finds the rule of a module. Modules below e2e, such as benchmarks with
// dependencies of their own, follow e2e's.
func ruleFor(folder string) (importRule, bool) {
	if below(folder, "e2e") {
		folder = "e2e"
	}
	rule, ok := importRules[folder]
	return rule, ok
}

// checkImports holds one Go file to the rule of its module. name is the file's
// path from the top of the repository.
func checkImports(module, name string, content []byte) ([]string, error) {
	rule, ok := ruleFor(module)
	if !ok {
		return []string{module + ": no rule says what this module may import: add one to importRules"}, nil
	}
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, content, parser.ImportsOnly)
	if err != nil {
		return nil, fmt.Errorf("read the imports: %w", err)
	}
	var complaints []string
	for _, spec := range file.Imports {
		target, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, fmt.Errorf("%s: import %s: %w", name, spec.Path.Value, err)
		}
		if reason := rule.refuses(module, name, target); reason != "" {
			complaints = append(complaints, fmt.Sprintf("%s: imports %s: %s", fset.Position(spec.Pos()), target, reason))
		}
	}
	return complaints, nil
}

// refuses returns why the file may not import target, or nothing.
func (r importRule) refuses(module, name, target string) string {
	test := strings.HasSuffix(name, "_test.go")
	isBelow := func(folder string) bool { return below(target, folder) }
	first, _, _ := strings.Cut(target, "/")

	if folder, ours := strings.CutPrefix(target, prefix); ours {
		allowed := append([]string{module}, r.ours...)
		if test {
			allowed = append(allowed, r.oursInTests...)
		}
		if !slices.ContainsFunc(allowed, func(f string) bool { return below(folder, f) }) {
			return module + " depends on " + strings.Join(r.ours, ", ") + " only"
		}
		return ""
	}
	switch {
	case !strings.Contains(first, "."):
		return "" // the standard library
	case !r.frameworks && slices.ContainsFunc(frameworks, isBelow):
		return "frameworks stay in coordinator and adapters/http"
	case test:
		return ""
	case r.thirdParty != nil && !slices.ContainsFunc(r.thirdParty, isBelow):
		return module + " uses only " + strings.Join(r.thirdParty, ", ") + " from outside"
	case r.redisIn != "" && isBelow(goRedis) && !strings.HasPrefix(name, module+"/"+r.redisIn+"/"):
		return "only " + module + "/" + r.redisIn + " talks to Redis"
	}
	return ""
}

func TestModulesImportWhatTheirRuleAllows(t *testing.T) {
	names := trackedFiles(t)
	mods := modules(t, names)
	// The longest folder that contains a file is its module.
	slices.SortFunc(mods, func(a, b module) int { return len(b.folder) - len(a.folder) })
	for _, name := range names {
		if !strings.HasSuffix(name, ".go") {
			continue
		}
		i := slices.IndexFunc(mods, func(m module) bool { return below(name, m.folder) })
		if i < 0 {
			t.Errorf("%s: lies in no module", name)
			continue
		}
		if mods[i].folder == "core" {
			continue
		}
		complaints, err := checkImports(mods[i].folder, name, read(t, name))
		if err != nil {
			t.Error(err)
		}
		for _, complaint := range complaints {
			t.Error(complaint)
		}
	}
}

func TestCheckImports(t *testing.T) {
	const (
		gin  = `"github.com/gin-gonic/gin"`
		otel = `"go.opentelemetry.io/otel/metric"`
		own  = `"` + prefix
	)
	tests := []struct {
		name, module, file, imports string
		complaints                  []string
	}{
		{"consumer on the client half", "consumer", "consumer/a.go", own + `core/member"; "` + goRedis + `"; "time"`, nil},
		{"consumer on itself", "consumer", "consumer/a.go", own + `consumer/internal/reader"`, nil},
		{"consumer on the engine", "consumer", "consumer/a.go", own + `core/engine"`, []string{"consumer depends on"}},
		{"consumer's test on the engine", "consumer", "consumer/a_test.go", own + `core/engine"`, nil},
		{"consumer on a name that begins alike", "consumer", "consumer/a.go", own + `core/memberlist"`, []string{"core/memberlist"}},
		{"consumer on an adapter, in a test too", "consumer", "consumer/a_test.go", own + `adapters/redis"`, []string{"adapters/redis"}},
		{"consumer on another library", "consumer", "consumer/a.go", `"golang.org/x/sync/errgroup"`, []string{"golang.org/x/sync/errgroup"}},
		{"consumer's test on another library", "consumer", "consumer/a_test.go", `"go.uber.org/goleak"`, nil},
		{"consumer's test on a framework", "consumer", "consumer/a_test.go", gin, []string{"frameworks stay"}},
		{"producer on the consumer", "producer", "producer/a_test.go", own + `consumer"`, []string{"producer depends on"}},
		{"producer on telemetry", "producer", "producer/a.go", otel, []string{"frameworks stay"}},
		{"adapter on another adapter", "adapters/http", "adapters/http/a.go", own + `adapters/redis"`, []string{"adapters/http depends on core only"}},
		{"router in its place", "adapters/http", "adapters/http/a.go", gin + ";" + otel, nil},
		{"router in the Redis adapter", "adapters/redis", "adapters/redis/a.go", gin, []string{"frameworks stay"}},
		{"Redis in its package", "adapters/redis", "adapters/redis/internal/command/a.go", `"` + goRedis + `"`, nil},
		{"Redis elsewhere in the adapter", "adapters/redis", "adapters/redis/store.go", `"` + goRedis + `"`, []string{"only adapters/redis/internal/command"}},
		{"Redis in the adapter's test", "adapters/redis", "adapters/redis/store_test.go", `"` + goRedis + `"`, nil},
		{"coordinator wires", "coordinator", "coordinator/internal/server/a.go", own + `adapters/http"; ` + own + `core/service"; "github.com/spf13/cobra"`, nil},
		{"suites see all but frameworks", "e2e", "e2e/a_test.go", own + `coordinator/x"; "github.com/lmittmann/tint"`, []string{"frameworks stay"}},
		{"a module below e2e", "e2e/bench", "e2e/bench/a_test.go", own + `core/assign"; "github.com/twmb/franz-go/pkg/kgo"`, nil},
		{"a module that nobody placed", "adapters/new", "adapters/new/a.go", ``, []string{"no rule says"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := checkImports(tt.module, tt.file, []byte("package p\nimport ("+tt.imports+")\n"))
			if err != nil {
				t.Fatal(err)
			}
			expect(t, got, tt.complaints)
		})
	}
}
