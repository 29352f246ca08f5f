package faultkit

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func TestAJournalIsReadAsItWasWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	r := ReadJournal(t, path) // before there is one
	took := func() (lines []string) {
		r.Take(func(line []byte) error {
			lines = append(lines, string(line))
			return nil
		})
		return lines
	}
	if lines := took(); len(lines) != 0 {
		t.Errorf("an empty journal has the lines %q", lines)
	}
	j, err := OpenJournal(path)
	if err != nil {
		t.Fatal(err)
	}
	// More than is read at once, and a line that comes in two parts.
	long := strings.Repeat("x", 700_000)
	j.Write([]byte("first\n" + long + "\n" + long + "\n\nhalf"))
	if lines := took(); len(lines) != 4 || lines[0] != "first" || lines[1] != long || lines[2] != long || lines[3] != "" {
		t.Errorf("read %d lines, wrote 4 and the beginning of one", len(lines))
	}
	j.Write(nil)
	j.Write([]byte(" a line\nlast\n"))
	if lines := took(); len(lines) != 2 || lines[0] != "half a line" || lines[1] != "last" {
		t.Errorf("read %q", lines)
	}
	if err := j.Close(); err != nil {
		t.Error(err)
	}
	if lines := took(); len(lines) != 0 {
		t.Errorf("nothing was added, and the lines %q were read", lines)
	}
}

func TestWritersShareAJournal(t *testing.T) {
	const writers, lines = 8, 500
	path := filepath.Join(t.TempDir(), "journal")
	r := ReadJournal(t, path)
	var writing sync.WaitGroup
	for w := range writers {
		j, err := OpenJournal(path)
		if err != nil {
			t.Fatal(err)
		}
		writing.Go(func() {
			for n := range lines {
				j.Write(fmt.Appendf(nil, "%d %d\n", w, n))
			}
			if err := j.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	next, sum := make([]int, writers), 0
	take := func() {
		r.Take(func(line []byte) error {
			var w, n int
			if _, err := fmt.Sscanf(string(line), "%d %d", &w, &n); err != nil || w >= writers {
				return fmt.Errorf("the line %q: %w", line, err)
			}
			if n != next[w] {
				return fmt.Errorf("line %d of writer %d after %d of its lines", n, w, next[w])
			}
			next[w]++
			sum++
			return nil
		})
	}
	Eventually(t, patience, "lines come in", func() bool { take(); return sum > 0 })
	writing.Wait()
	take()
	if info, err := os.Stat(path); err != nil || sum != writers*lines {
		t.Errorf("%d lines of %d, the file has %d bytes (%v)", sum, writers*lines, info.Size(), err)
	}
}
