package rules

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestTheProtocolPageNamesEveryMutant keeps docs/protocol.md and the table of
// mutants in step.
func TestTheProtocolPageNamesEveryMutant(t *testing.T) {
	root := filepath.Join("..", "..")
	page, err := os.ReadFile(filepath.Join(root, "docs", "protocol.md"))
	if err != nil {
		t.Fatal(err)
	}
	table, err := os.ReadFile(filepath.Join(root, "core", "sim", "mutants_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`\{name: "([^"]+)"`).FindAllStringSubmatch(string(table), -1)
	if len(names) < 30 {
		t.Fatalf("found %d mutants, at least 30 are expected", len(names))
	}
	for _, name := range names {
		if !strings.Contains(string(page), "| "+name[1]+" |") {
			t.Errorf("docs/protocol.md does not name the mutant %q", name[1])
		}
	}
	for _, story := range regexp.MustCompile("`(group|engine|stream): ([a-z_]+)`").FindAllStringSubmatch(string(page), -1) {
		if _, err := os.Stat(filepath.Join(root, "core", story[1], "testdata", story[2]+".txt")); err != nil {
			t.Errorf("docs/protocol.md names a story that is not there: %v", err)
		}
	}
}
