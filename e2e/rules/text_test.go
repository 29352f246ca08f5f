package rules

import (
	"bytes"
	"fmt"
	"path"
	"regexp"
	"testing"
)

// forbidden is what no tracked file contains. The patterns are written so that
// they do not match themselves.
var forbidden = []struct {
	pattern *regexp.Regexp
	reason  string
}{
	{
		regexp.MustCompile(`\b(?:TO` + `DO|FIX` + `ME|XX` + `X)\b`),
		"marks something left open: finish it, or file an issue",
	},
	{
		// An absolute path into somebody's home or scratch folder, not a folder
		// of that name inside another path or a URL.
		regexp.MustCompile(`(?:^|[^\w.\-/})])/(?:home|root|tmp|work|farm|Users|private)/\w`),
		"is a path of one machine",
	},
}

// checkText returns a complaint for each line of a file with something that has
// no place in the repository.
func checkText(name string, content []byte) []string {
	if bytes.IndexByte(content, 0) >= 0 || path.Base(name) == "go.sum" {
		return nil // not text, or text that nobody writes
	}
	var complaints []string
	number := 0
	for line := range bytes.Lines(content) {
		number++
		for _, f := range forbidden {
			if hit := f.pattern.Find(line); hit != nil {
				complaints = append(complaints, fmt.Sprintf("%s:%d: %q %s", name, number, bytes.TrimSpace(hit), f.reason))
			}
		}
	}
	return complaints
}

func TestTrackedFilesLeaveNothingOpenAndNameNoMachine(t *testing.T) {
	for _, name := range trackedFiles(t) {
		for _, complaint := range checkText(name, read(t, name)) {
			t.Error(complaint)
		}
	}
}

func TestCheckText(t *testing.T) {
	const slash = "/" // kept apart, so that this file passes its own test
	tests := []struct {
		name, text string
		complaints []string
	}{
		{"plain", "a tomb, a todo list, XXXXXX in a template\n", nil},
		{"mark", "one\n// TO" + "DO: two\n", []string{"a.go:2: \"TO" + "DO\""}},
		{"other marks", "// FIX" + "ME\n// XX" + "X\n", []string{"a.go:1:", "a.go:2:"}},
		{"in code", "ctx := context.TO" + "DO()\n", []string{"a.go:1:"}},
		{"home", "cd " + slash + "home/ann/src\n", []string{"is a path of one machine"}},
		{"at the start of a line", slash + "root/go/bin\n", []string{"is a path of one machine"}},
		{"in quotes", `x := "` + slash + `tmp/out"` + "\n", []string{"is a path of one machine"}},
		{"a folder of such a name in a path", "github.com/ann" + slash + "work/tree ./" + "tmp/out $HOME" + slash + "work/a\n", nil},
		{"in a URL", "http://example.com" + slash + "home/page\n", nil},
		{"the folder alone", "mount a tmpfs on " + slash + "tmp\n", nil},
		{"binary", "\x00 TO" + "DO\n", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			expect(t, checkText("a.go", []byte(tt.text)), tt.complaints)
		})
	}
}
