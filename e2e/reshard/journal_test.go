package reshard

import (
	"bytes"
	"errors"
	"io"
	"os"
	"testing"
)

// journal appends whole lines to a file. Each write is one call, so what was written is
// there after a kill -9, and processes can share a file.
type journal struct{ file *os.File }

func openJournal(path string) (*journal, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	return &journal{f}, nil
}

// write ends the process if it cannot: an account with gaps proves nothing.
func (j *journal) write(lines []byte) {
	if len(lines) == 0 {
		return
	}
	if _, err := j.file.Write(lines); err != nil {
		_, _ = os.Stderr.WriteString("write to the journal: " + err.Error() + "\n")
		os.Exit(4)
	}
}

func (j *journal) close() error { return j.file.Close() }

// journalReader reads what was added to a journal since it was last read.
type journalReader struct {
	tb   testing.TB
	file *os.File
	read int64
	rest []byte
}

func newJournalReader(tb testing.TB, path string) *journalReader {
	tb.Helper()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDONLY, 0o600)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = f.Close() })
	return &journalReader{tb: tb, file: f}
}

// take calls add for the words of each new line.
func (r *journalReader) take(add func(words [][]byte)) {
	r.tb.Helper()
	buf := make([]byte, 1<<20)
	for {
		n, err := r.file.ReadAt(buf, r.read)
		r.read += int64(n)
		r.rest = append(r.rest, buf[:n]...)
		for {
			line, rest, whole := bytes.Cut(r.rest, []byte("\n"))
			if !whole {
				break
			}
			add(bytes.Fields(line))
			r.rest = rest
		}
		if errors.Is(err, io.EOF) || n == 0 {
			return
		}
		if err != nil {
			r.tb.Fatal(err)
		}
	}
}
