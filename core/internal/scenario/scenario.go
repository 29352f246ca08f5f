// Package scenario runs stories that are written as text files: commands, and
// below each a line of dashes and the whole answer. A test of a rule reads like
// the incident that the rule prevents, and a change of behaviour shows as a
// diff of the story.
//
//	# b joins while a holds both shards.
//	join m=b
//	----
//	b: OK, nothing assigned, pending 1
//
// A block ends with an empty line. `go test -update` writes the answers anew.
package scenario

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the answers of scenario files anew")

// Cmd is one command of a story: `name arg key=value …`.
type Cmd struct {
	// Pos is file:line, for messages.
	Pos  string
	Name string
	// Words are the arguments without a value, Args those with one.
	Words []string
	Args  map[string]string
}

// Has reports whether a word or a key was given.
func (c Cmd) Has(key string) bool {
	if _, there := c.Args[key]; there {
		return true
	}
	for _, w := range c.Words {
		if w == key {
			return true
		}
	}
	return false
}

// Str returns a value, or fallback.
func (c Cmd) Str(key, fallback string) string {
	if v, there := c.Args[key]; there {
		return v
	}
	return fallback
}

// Int returns a whole number, or fallback.
func (c Cmd) Int(t testing.TB, key string, fallback int64) int64 {
	t.Helper()
	v, there := c.Args[key]
	if !there {
		return fallback
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil {
		t.Fatalf("%s: %s=%s is not a number", c.Pos, key, v)
	}
	return n
}

// List returns the comma-separated parts of a value; none when it is absent or
// empty.
func (c Cmd) List(key string) []string {
	v := c.Args[key]
	if v == "" {
		return nil
	}
	return strings.Split(v, ",")
}

// Files runs each file of a folder as a subtest named after it.
func Files(t *testing.T, pattern string, run func(t *testing.T, path string)) {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) == 0 {
		t.Fatalf("no scenario files match %s (%v)", pattern, err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), filepath.Ext(path)), func(t *testing.T) { run(t, path) })
	}
}

// Run plays a story. do carries one command out and returns the answer.
func Run(t *testing.T, path string, do func(t *testing.T, c Cmd) string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var played strings.Builder
	for _, b := range parse(t, path, string(text)) {
		played.WriteString(b.before)
		if b.cmd.Name == "" {
			continue
		}
		got := strings.TrimRight(do(t, b.cmd), "\n")
		if got == "" {
			got = "ok"
		}
		fmt.Fprintf(&played, "----\n%s\n\n", got)
		if got != b.want && !*update {
			t.Errorf("%s: %s\ngot:\n%s\nwant:\n%s", b.cmd.Pos, strings.TrimSpace(b.before), indent(got), indent(b.want))
		}
	}
	if *update {
		if err := os.WriteFile(path, []byte(strings.TrimRight(played.String(), "\n")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// Outcome plays a story and returns the answers that differ from the ones in
// the file, one line each. It is how a test shows that a story fails when a rule
// is switched off.
func Outcome(t *testing.T, path string, do func(t *testing.T, c Cmd) string) []string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var differ []string
	for _, b := range parse(t, path, string(text)) {
		if b.cmd.Name == "" {
			continue
		}
		got := strings.TrimRight(do(t, b.cmd), "\n")
		if got == "" {
			got = "ok"
		}
		if got != b.want {
			differ = append(differ, fmt.Sprintf("%s: got %q, want %q", b.cmd.Pos, got, b.want))
		}
	}
	return differ
}

type block struct {
	// before is everything up to the dashes, kept as it is.
	before string
	cmd    Cmd
	want   string
}

func parse(t *testing.T, path, text string) []block {
	t.Helper()
	var blocks []block
	var b block
	inAnswer := false
	var answer []string
	flush := func() {
		if inAnswer {
			b.want = strings.Join(answer, "\n")
			blocks = append(blocks, b)
			b, answer, inAnswer = block{}, nil, false
		}
	}
	for i, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		switch {
		case inAnswer && line == "":
			flush()
		case inAnswer:
			answer = append(answer, line)
		case line == "" && b.cmd.Name != "":
			if !*update {
				t.Fatalf("%s: %s has no answer: run with -update", b.cmd.Pos, b.cmd.Name)
			}
			inAnswer = true
			flush()
		case line == "----":
			if b.cmd.Name == "" {
				t.Fatalf("%s:%d: an answer without a command", path, i+1)
			}
			inAnswer = true
		default:
			b.before += line + "\n"
			if trimmed := strings.TrimSpace(line); trimmed != "" && !strings.HasPrefix(trimmed, "#") {
				if b.cmd.Name != "" {
					t.Fatalf("%s:%d: a second command before the answer of the first", path, i+1)
				}
				b.cmd = command(fmt.Sprintf("%s:%d", filepath.Base(path), i+1), trimmed)
			}
		}
	}
	if b.cmd.Name != "" && !inAnswer {
		if !*update {
			t.Fatalf("%s: %s has no answer: run with -update", b.cmd.Pos, b.cmd.Name)
		}
		inAnswer = true
	}
	flush()
	if b.before != "" {
		blocks = append(blocks, b)
	}
	return blocks
}

func command(pos, line string) Cmd {
	fields := strings.Fields(line)
	c := Cmd{Pos: pos, Name: fields[0], Args: map[string]string{}}
	for _, f := range fields[1:] {
		if k, v, found := strings.Cut(f, "="); found {
			c.Args[k] = v
		} else {
			c.Words = append(c.Words, f)
		}
	}
	return c
}

func indent(s string) string { return "    " + strings.ReplaceAll(s, "\n", "\n    ") }
