package main

import (
	"archive/zip"
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// tool is a program that answers every call with what the expression says of its
// build info.
func tool(expression string) string {
	return "// Command tool says its version.\npackage main\n\n" +
		"import (\n\t\"fmt\"\n\t\"runtime/debug\"\n\n\t\"example.com/made/b\"\n)\n\n" +
		"func main() {\n\tinfo, _ := debug.ReadBuildInfo()\n\tfmt.Println(b.Twice, " + expression + ")\n}\n"
}

// madeUp is a repository of two modules in the shape of ours: b requires a and
// replaces it by its folder.
func madeUp(t *testing.T, edit map[string]string) string {
	t.Helper()
	files := map[string]string{
		"LICENSE":              "do as you please\n",
		"lib/a/go.mod":         "module example.com/made/lib/a\n\ngo 1.25\n",
		"lib/a/a.go":           "// Package a is found by b.\npackage a\n\n// Answer is what b asks for.\nconst Answer = 42\n",
		"b/go.mod":             "module example.com/made/b\n\ngo 1.25\n\nrequire example.com/made/lib/a v0.1.0\n\nreplace example.com/made/lib/a => ../lib/a\n",
		"b/b.go":               "// Package b uses a.\npackage b\n\nimport \"example.com/made/lib/a\"\n\n// Twice is two answers.\nconst Twice = 2 * a.Answer\n",
		"b/cmd/tool/main.go":   tool("info.Main.Version"),
		"b/nested/go.mod":      "module example.com/made/b/nested\n\ngo 1.25\n",
		"b/nested/nested.go":   "package nested\n",
		"b/testdata/story.txt": "told\n",
	}
	for name, content := range edit {
		files[name] = content
	}
	root := t.TempDir()
	for name, content := range files {
		file := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}} {
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir = root
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	return root
}

// box packs the made-up repository and returns a sandbox that has nothing but
// the result.
func box(t *testing.T, root string) (*sandbox, []packedModule) {
	t.Helper()
	dir := t.TempDir()
	proxy := filepath.Join(dir, "proxy")
	packed, err := packAll(t.Context(), root, []string{"lib/a", "b"}, "v0.1.0", proxy)
	if err != nil {
		t.Fatal(err)
	}
	s, err := newSandbox(dir, proxy, "off", packed, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	return s, packed
}

func TestPackedModulesServeFreshPrograms(t *testing.T) {
	s, packed := box(t, madeUp(t, nil))
	b := packed[1]
	if err := s.useLibrary(t.Context(), b); err != nil {
		t.Errorf("use the library: %v", err)
	}
	if err := s.installCommand(t.Context(), b, "cmd/tool"); err != nil {
		t.Errorf("install the command: %v", err)
	}
	if err := s.buildAll(t.Context(), packed); err != nil {
		t.Errorf("build all: %v", err)
	}
}

func TestMistakesOfAReleaseAreFound(t *testing.T) {
	tests := []struct {
		name string
		edit map[string]string
		say  string
	}{
		{
			name: "a version that nobody releases",
			edit: map[string]string{"b/go.mod": "module example.com/made/b\n\ngo 1.25\n\nrequire example.com/made/lib/a v0.2.0\n\nreplace example.com/made/lib/a => ../lib/a\n"},
			say:  "example.com/made/lib/a v0.2.0",
		},
		{
			name: "a file that git ignores",
			edit: map[string]string{".gitignore": "answer.go\n", "lib/a/a.go": "package a\n", "lib/a/answer.go": "package a\n\nconst Answer = 42\n"},
			say:  "undefined: a.Answer",
		},
		{
			name: "a test that imports what is not published",
			edit: map[string]string{"b/b_test.go": "package b\n\nimport _ \"example.com/made/hidden\"\n"},
			say:  "example.com/made/hidden",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, packed := box(t, madeUp(t, tt.edit))
			err := s.useLibrary(t.Context(), packed[1])
			if err == nil || !strings.Contains(err.Error(), tt.say) {
				t.Errorf("got %v, want an error that mentions %s", err, tt.say)
			}
		})
	}
}

func TestCommandThatDoesNotKnowItsVersionIsFound(t *testing.T) {
	s, packed := box(t, madeUp(t, map[string]string{"b/cmd/tool/main.go": tool("info.Path")}))
	err := s.installCommand(t.Context(), packed[1], "cmd/tool")
	if err == nil || !strings.Contains(err.Error(), "--version says") {
		t.Errorf("got %v, want a complaint about the version", err)
	}
}

func TestPackLeavesOutWhatAProxyLeavesOut(t *testing.T) {
	root := madeUp(t, nil)
	if err := os.WriteFile(filepath.Join(root, "b", "untracked.go"), []byte("package b\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, _ := box(t, root)
	archive, err := os.ReadFile(filepath.Join(s.dir, "proxy", "example.com", "made", "b", "@v", "v0.1.0.zip"))
	if err != nil {
		t.Fatal(err)
	}
	reader, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, file := range reader.File {
		name := strings.TrimPrefix(file.Name, "example.com/made/b@v0.1.0/")
		names = append(names, name)
		if name != "go.mod" {
			continue
		}
		content, err := file.Open()
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(content)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "replace") || !strings.Contains(string(text), "require example.com/made/lib/a v0.1.0") {
			t.Errorf("go.mod was packed as\n%s", text)
		}
	}
	slices.Sort(names)
	want := []string{"LICENSE", "b.go", "cmd/tool/main.go", "go.mod", "testdata/story.txt"}
	if !slices.Equal(names, want) {
		t.Errorf("packed %v, want %v", names, want)
	}
}
