package archtest

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// modulePath is the import path of core.
const modulePath = "github.com/redis-stream-coordinator/rsc/core"

// source is one parsed file of core.
type source struct {
	// pkg is the folder below core, "group" or "port/porttest".
	pkg  string
	test bool
	fset *token.FileSet
	file *ast.File
}

// parse reads one file; name is its path below core, with slashes.
func parse(name string, content []byte) (source, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, content, parser.SkipObjectResolution)
	if err != nil {
		return source{}, fmt.Errorf("parse %s: %w", name, err)
	}
	return source{
		pkg:  path.Dir(name),
		test: strings.HasSuffix(name, "_test.go"),
		fset: fset,
		file: file,
	}, nil
}

// complain formats a finding with the place where it stands.
func (s source) complain(pos token.Pos, format string, args ...any) string {
	return s.fset.Position(pos).String() + ": " + fmt.Sprintf(format, args...)
}

// imported is one import of a file.
type imported struct {
	path string
	// name is what the file calls the package: the name given to it, or the last
	// element of the path that is not a version.
	name string
	pos  token.Pos
}

func (s source) imports() []imported {
	found := make([]imported, 0, len(s.file.Imports))
	for _, spec := range s.file.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue // the parser refuses such a file
		}
		name := path.Base(p)
		if strings.HasPrefix(name, "v") && len(name) > 1 && strings.Trim(name[1:], "0123456789") == "" {
			name = path.Base(path.Dir(p))
		}
		if spec.Name != nil {
			name = spec.Name.Name
		}
		found = append(found, imported{path: p, name: name, pos: spec.Pos()})
	}
	return found
}

// sources parses all of core. Folders named testdata hold no code of ours.
func sources(t *testing.T) []source {
	t.Helper()
	root := filepath.Join("..", "..")
	var found []source
	err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && entry.Name() == "testdata":
			return fs.SkipDir
		case entry.IsDir() || !strings.HasSuffix(file, ".go"):
			return nil
		}
		name, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		content, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // removed between the listing and the reading
		}
		if err != nil {
			return err
		}
		s, err := parse(filepath.ToSlash(name), content)
		if err != nil {
			return err
		}
		found = append(found, s)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(found) == 0 {
		t.Fatal("no Go file was found in core: the test looks in the wrong place")
	}
	return found
}

// mustParse is parse for the programs that tests make up.
func mustParse(t *testing.T, name, content string) source {
	t.Helper()
	s, err := parse(name, []byte(content))
	if err != nil {
		t.Fatal(err)
	}
	return s
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
