package rules

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"
)

// prefix is the path that all modules of ours begin with; the folder follows.
const prefix = "github.com/redis-stream-coordinator/rsc/"

// root is the top of the repository, seen from this package.
var root = filepath.Join("..", "..")

// trackedFiles lists what git tracks and what is there, with slashes, relative
// to root. A file that is deleted but not committed is left out.
func trackedFiles(t *testing.T) []string {
	t.Helper()
	list := exec.CommandContext(t.Context(), "git", "ls-files", "-z")
	list.Dir = root
	out, err := list.Output()
	if err != nil {
		t.Fatalf("list the tracked files with git: %v", err)
	}
	var found []string
	for name := range bytes.SplitSeq(bytes.TrimRight(out, "\x00"), []byte{0}) {
		_, err := os.Stat(filepath.Join(root, filepath.FromSlash(string(name))))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		found = append(found, string(name))
	}
	if len(found) == 0 {
		t.Fatal("git tracks no file here: the test looks in the wrong place")
	}
	return found
}

// read returns the content of one tracked file.
func read(t *testing.T, name string) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// module is one module of ours: its folder from root with slashes, which is
// also its path after prefix, and its go.mod.
type module struct {
	folder string
	mod    *modfile.File
}

// modules parses the go.mod files among names.
func modules(t *testing.T, names []string) []module {
	t.Helper()
	var found []module
	for _, name := range names {
		if path.Base(name) != "go.mod" || slices.Contains(strings.Split(name, "/"), "testdata") {
			continue
		}
		found = append(found, parseModule(t, path.Dir(name), string(read(t, name))))
	}
	if len(found) == 0 {
		t.Fatal("no go.mod is tracked: the test looks in the wrong place")
	}
	return found
}

func parseModule(t *testing.T, folder, content string) module {
	t.Helper()
	mod, err := modfile.Parse(folder+"/go.mod", []byte(content), nil)
	if err != nil {
		t.Fatal(err)
	}
	return module{folder: folder, mod: mod}
}

// below says whether p is the element or the path name, or lies below it.
func below(p, name string) bool {
	return p == name || strings.HasPrefix(p, name+"/")
}

// expect compares complaints with the fragments that they must contain, one
// each, in order.
func expect(t *testing.T, got, fragments []string) {
	t.Helper()
	if len(got) != len(fragments) {
		t.Fatalf("got %d complaints, want %d:\n%s", len(got), len(fragments), strings.Join(got, "\n"))
	}
	for i, fragment := range fragments {
		if !strings.Contains(got[i], fragment) {
			t.Errorf("complaint %d is %q, want it to mention %q", i, got[i], fragment)
		}
	}
}
