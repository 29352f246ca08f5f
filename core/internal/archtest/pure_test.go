package archtest

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
	"testing"
)

// pure are the packages that are functions of their input: the simulator can
// replay them only because nothing else reaches them.
var pure = []string{"protocol", "routing", "assign", "group", "stream", "member", "engine", "internal/rules", "internal/spans"}

// computes are the packages of the standard library that a pure package may
// use. It is a list of what is allowed, because the ways to reach the outside
// are many and grow: hash/maphash is random, runtime sees the scheduler, net/url
// arrives with net's name. Whoever needs another one that only computes adds it.
var computes = []string{
	"bytes", "cmp", "container/heap", "container/list",
	"encoding", "encoding/base64", "encoding/binary", "encoding/hex", "encoding/json",
	"errors", "fmt", "hash", "hash/crc32", "hash/fnv", "io", "iter", "maps", "math", "math/bits",
	"slices", "sort", "strconv", "strings", "time", "unicode", "unicode/utf8",
}

// tries are what the tests of a pure package may use besides: files with
// scenarios and vectors, flags such as -update, seeded randomness, measuring.
// They too have no clock, no network and no goroutine of their own.
var tries = []string{
	"bufio", "embed", "flag", "io/fs", "math/big", "math/rand", "math/rand/v2", "os", "path", "path/filepath",
	"reflect", "regexp", "runtime", "testing", "testing/fstest", "testing/quick", "unsafe", "go/ast", "go/parser", "go/token",
}

// outside are the members of a package that look at, or wait for, something
// outside of the program.
var outside = map[string]struct {
	members []string
	instead string
}{
	"time": {
		[]string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick", "Local", "LoadLocation"},
		"the time comes in with the input",
	},
	"fmt": {
		[]string{"Print", "Printf", "Println", "Scan", "Scanf", "Scanln"},
		"what happened is returned as events",
	},
}

// checkPure looks for everything in one file of a pure package that makes its
// result depend on more than its input.
func checkPure(s source) []string {
	var complaints []string
	refuse := func(pos token.Pos, format string, args ...any) {
		complaints = append(complaints, s.complain(pos, format, args...))
	}

	names := map[string]string{} // what the file calls a package → its path
	for _, imp := range s.imports() {
		names[imp.name] = imp.path
		switch {
		case imp.name == ".":
			refuse(imp.pos, "imports %s with a dot, which hides where names come from", imp.path)
		case strings.HasPrefix(imp.path, modulePath+"/"):
			// The layers say which.
		case slices.Contains(computes, imp.path):
		case s.test && slices.Contains(tries, imp.path):
		default:
			refuse(imp.pos, "imports %s, which is not known to compute only (see computes)", imp.path)
		}
	}

	ast.Inspect(s.file, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.GoStmt:
			refuse(n.Pos(), "starts a goroutine")
		case *ast.SelectStmt:
			refuse(n.Pos(), "selects among channels")
		case *ast.SendStmt:
			refuse(n.Pos(), "sends on a channel")
		case *ast.ChanType:
			refuse(n.Pos(), "has a channel")
		case *ast.UnaryExpr:
			if n.Op == token.ARROW {
				refuse(n.Pos(), "receives from a channel")
			}
		case *ast.SelectorExpr:
			name, ok := n.X.(*ast.Ident)
			if !ok {
				break
			}
			out := outside[names[name.Name]]
			if slices.Contains(out.members, n.Sel.Name) && !printsInTest(s, names[name.Name]) {
				refuse(n.Pos(), "uses %s.%s: %s", names[name.Name], n.Sel.Name, out.instead)
			}
		case *ast.CallExpr:
			if name, ok := n.Fun.(*ast.Ident); ok && (name.Name == "print" || name.Name == "println") {
				refuse(n.Pos(), "calls %s: what happened is returned as events", name.Name)
			}
		}
		return true
	})
	return complaints
}

// printsInTest: an Example shows its result by printing it.
func printsInTest(s source, path string) bool {
	return s.test && path == "fmt"
}

func TestPurePackagesArePure(t *testing.T) {
	for _, s := range sources(t) {
		if !slices.Contains(pure, s.pkg) {
			continue
		}
		for _, complaint := range checkPure(s) {
			t.Error(complaint)
		}
	}
}

func TestPurePackagesStandOnPureOnes(t *testing.T) {
	for _, pkg := range pure {
		for _, below := range layers[pkg] {
			if !slices.Contains(pure, below) {
				t.Errorf("pure package %s may import %s, which is not pure", pkg, below)
			}
		}
	}
}

func TestCheckPure(t *testing.T) {
	tests := []struct {
		name, file, code string
		complaints       []string
	}{
		{"arithmetic", "assign/a.go", `import "slices"; func f(x []int) { slices.Sort(x) }`, nil},
		{"time as a value", "group/a.go", `import "time"; func f(now time.Time) time.Time { return now.Add(time.Second) }`, nil},
		{"a method with a clock's name", "group/a.go", `type s struct{}; func (s) Now() {}; func f(x s) { x.Now() }`, nil},
		{"goroutine", "group/a.go", `func f() { go f() }`, []string{"goroutine"}},
		{"goroutine in a test", "group/a_test.go", `func f() { go f() }`, []string{"goroutine"}},
		{"select", "group/a.go", `func f() { select {} }`, []string{"selects"}},
		{"channel type", "group/a.go", `type t struct { done chan int }`, []string{"has a channel"}},
		{"send", "group/a.go", `func f(x t) { x.c <- 1 }`, []string{"sends"}},
		{"receive", "group/a.go", `func f(x t) { <-x.c }`, []string{"receives"}},
		{"now", "group/a.go", `import "time"; var f = time.Now`, []string{"time.Now: the time comes in"}},
		{"now under another name", "group/a.go", `import clock "time"; func f() { clock.Now() }`, []string{"time.Now"}},
		{"now by a dot import", "group/a.go", `import . "time"; func f() { Now() }`, []string{"dot"}},
		{"since, until, sleep", "group/a.go", `import "time"; func f(x time.Time) { time.Since(x); time.Until(x); time.Sleep(1) }`,
			[]string{"time.Since", "time.Until", "time.Sleep"}},
		{"timers", "group/a.go", `import "time"; func f() { time.After(1); time.AfterFunc(1, f); time.NewTimer(1); time.NewTicker(1); time.Tick(1) }`,
			[]string{"time.After", "time.AfterFunc", "time.NewTimer", "time.NewTicker", "time.Tick"}},
		{"the machine's time zone", "group/a.go", `import "time"; func f(x time.Time) { x.In(time.Local) }`, []string{"time.Local"}},
		{"sleep in a test", "group/a_test.go", `import "time"; func f() { time.Sleep(1) }`, []string{"time.Sleep"}},
		{"randomness", "group/a.go", `import "math/rand"`, []string{"imports math/rand"}},
		{"newer randomness", "group/a.go", `import "math/rand/v2"`, []string{"imports math/rand/v2"}},
		{"seeded randomness in a test", "group/a_test.go", `import "math/rand/v2"`, nil},
		{"cryptographic randomness", "group/a_test.go", `import "crypto/rand"`, []string{"imports crypto/rand"}},
		{"randomness of a hash", "assign/a.go", `import "hash/maphash"`, []string{"imports hash/maphash"}},
		{"files", "group/a.go", `import "os"`, []string{"imports os"}},
		{"files in a test", "group/a_test.go", `import "os"`, nil},
		{"network in a test", "group/a_test.go", `import "net"`, []string{"imports net"}},
		{"logger", "member/a.go", `import ("log"; "log/slog")`, []string{"imports log,", "imports log/slog"}},
		{"context", "engine/a.go", `import "context"`, []string{"imports context"}},
		{"locks", "engine/a.go", `import ("sync"; "sync/atomic")`, []string{"imports sync,", "imports sync/atomic"}},
		{"printing", "engine/a.go", `import "fmt"; func f() { fmt.Println(); println() }`, []string{"fmt.Println", "calls println"}},
		{"formatting", "engine/a.go", `import "fmt"; func f() string { return fmt.Sprint(1) }`, nil},
		{"an example", "engine/a_test.go", `import "fmt"; func f() { fmt.Println() }`, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			expect(t, checkPure(mustParse(t, tt.file, "package p\n"+tt.code+"\n")), tt.complaints)
		})
	}
}
