package faultkit

import (
	"bytes"
	"errors"
	"io"
	"os"
	"testing"
)

// Journal is a file to which processes append what they do. Each Write is one call to
// a file that is opened for appending, so the lines of several processes stand there
// whole and in the order in which they were written, and outlive a kill -9.
type Journal struct{ file *os.File }

// OpenJournal opens a journal for writing, and creates it where there is none.
func OpenJournal(path string) (*Journal, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	return &Journal{f}, nil
}

// Write appends whole lines, each with its end. It ends the process if it cannot: an
// account with gaps proves nothing.
func (j *Journal) Write(lines []byte) {
	if len(lines) == 0 {
		return
	}
	if _, err := j.file.Write(lines); err != nil {
		_, _ = os.Stderr.WriteString("write to the journal: " + err.Error() + "\n")
		os.Exit(4)
	}
}

// Close closes the journal: nothing can be written any more.
func (j *Journal) Close() error { return j.file.Close() }

// JournalReader reads what was added to a journal since it was last read.
type JournalReader struct {
	tb   testing.TB
	file *os.File
	// read is how much of the file was read, rest the beginning of a line that is not
	// whole yet.
	read int64
	rest []byte
}

// ReadJournal reads a journal from its beginning, until the test ends. It creates it
// where there is none yet.
func ReadJournal(tb testing.TB, path string) *JournalReader {
	tb.Helper()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDONLY, 0o600)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = f.Close() })
	return &JournalReader{tb: tb, file: f}
}

// Take calls add for each new line, without its end. The line is valid during the call
// only. A line that add refuses fails the test.
func (r *JournalReader) Take(add func(line []byte) error) {
	r.tb.Helper()
	const part = 1 << 20
	buf := make([]byte, part)
	for {
		n, err := r.file.ReadAt(buf, r.read)
		r.read += int64(n)
		lines := append(r.rest, buf[:n]...) //nolint:gocritic // rest is what was left of it
		for {
			line, rest, whole := bytes.Cut(lines, []byte("\n"))
			if !whole {
				break
			}
			if err := add(line); err != nil {
				r.tb.Fatal(err)
			}
			lines = rest
		}
		r.rest = bytes.Clone(lines)
		switch {
		case errors.Is(err, io.EOF):
			return
		case err != nil:
			r.tb.Fatal(err)
		}
	}
}
