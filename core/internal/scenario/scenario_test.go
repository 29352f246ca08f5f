package scenario

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const story = `# A story.
say hello to=all n=3
----
hello all

# The second block.
list xs=1,2
----
1
2
`

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "story.txt")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func play(t *testing.T, c Cmd) string {
	switch c.Name {
	case "say":
		if c.Int(t, "n", 0) != 3 || !c.Has("hello") || !c.Has("to") || c.Has("from") {
			t.Error("arguments were read wrongly")
		}
		return "hello " + c.Str("to", "nobody") + "\n"
	case "list":
		return strings.Join(c.List("xs"), "\n")
	}
	return ""
}

func TestRunPlaysAStory(t *testing.T) { Run(t, write(t, story), play) }

func TestOutcomeNamesWhatDiffers(t *testing.T) {
	path := write(t, story)
	if d := Outcome(t, path, play); len(d) != 0 {
		t.Errorf("a true story differs: %v", d)
	}
	d := Outcome(t, path, func(t *testing.T, c Cmd) string {
		if c.Name == "list" {
			return "other"
		}
		return play(t, c)
	})
	if len(d) != 1 || !strings.Contains(d[0], "story.txt:7") {
		t.Errorf("Outcome = %v, want one line that names story.txt:7", d)
	}
}

func TestUpdateKeepsWhatIsNotAnAnswer(t *testing.T) {
	path := write(t, strings.ReplaceAll(story, "hello all", "something else"))
	*update = true
	defer func() { *update = false }()
	Run(t, path, play)
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != story {
		t.Errorf("rewritten story:\n%s\nwant:\n%s", got, story)
	}
}
