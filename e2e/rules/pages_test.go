package rules

import (
	"bytes"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	// link is the target of a link, without the place on the page.
	link = regexp.MustCompile(`\]\(([^)#\s]+)[^)]*\)`)
	// code is what stands in a page as code, where brackets mean other things.
	code = regexp.MustCompile("(?s)```.*?```|`[^`\n]*`")
	// target is a target of the Makefile that `make help` lists.
	target = regexp.MustCompile(`(?m)^([a-z0-9-]+):.*## `)
	// row is a row of the table of commands in README.md.
	row = regexp.MustCompile("(?m)^\\| `make ([a-z0-9-]+)` \\|")
)

// relativeLinks returns the files and folders of the repository that a page
// links to, seen from the top.
func relativeLinks(name string, content []byte) []string {
	var links []string
	for _, found := range link.FindAllSubmatch(code.ReplaceAll(content, nil), -1) {
		if to := string(found[1]); !strings.Contains(to, ":") {
			links = append(links, path.Join(path.Dir(name), to))
		}
	}
	return links
}

func TestLinksLeadSomewhere(t *testing.T) {
	for _, name := range trackedFiles(t) {
		if path.Ext(name) != ".md" {
			continue
		}
		for _, to := range relativeLinks(name, read(t, name)) {
			if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(to))); err != nil {
				t.Errorf("%s: links to %s: %v", name, to, err)
			}
		}
	}
}

func TestRelativeLinks(t *testing.T) {
	page := "[a](b.md) [c](../d#e) [f](https://example.com/g) [h](#i) `[j](k)`\n```\n[l](m)\n```\n[n](o \"title\")"
	if got, want := relativeLinks("docs/x.md", []byte(page)), []string{"docs/b.md", "d", "docs/o"}; !slices.Equal(got, want) {
		t.Errorf("links %q, want %q", got, want)
	}
}

// names returns the first group of each match, sorted.
func names(pattern *regexp.Regexp, content []byte) []string {
	var all []string
	for _, found := range pattern.FindAllSubmatch(content, -1) {
		all = append(all, string(bytes.TrimSpace(found[1])))
	}
	slices.Sort(all)
	return all
}

func TestReadmeNamesTargetsThatExist(t *testing.T) {
	listed, targets := names(row, read(t, "README.md")), names(target, read(t, "Makefile"))
	if len(listed) == 0 {
		t.Fatal("README.md has no table of make targets: the test looks for something else")
	}
	for _, name := range listed {
		if !slices.Contains(targets, name) {
			t.Errorf("README.md lists make %s, the Makefile has no such target: %q", name, targets)
		}
	}
}
