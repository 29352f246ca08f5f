package controlplane

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
)

// What a line of the journal says.
const (
	// started: the member may read the shard from now on.
	started byte = 'S'
	// reads: it may still.
	reads byte = 'R'
	// letGo: it was asked to let go and reads no more.
	letGo byte = 'E'
	// lost: the shard was taken from it. It is known when that was heard, not when the
	// last read was.
	lost byte = 'L'
)

// line is a line of the journal.
type line struct {
	kind byte
	// at is on the wall clock, which all processes here share. What is written of a
	// pause comes late; its time does not.
	at     time.Time
	shard  int
	token  int64
	member string
	// cause is why a shard was lost, else "-".
	cause string
}

func (l line) append(text []byte) []byte {
	return fmt.Appendf(text, "%c %d %d %d %s %s\n", l.kind, l.at.UnixNano(), l.shard, l.token, l.member, l.cause)
}

func parseLine(text string) (line, error) {
	f := strings.Split(text, " ")
	if len(f) != 6 || len(f[0]) != 1 {
		return line{}, fmt.Errorf("no line of the journal: %q", text)
	}
	at, err1 := strconv.ParseInt(f[1], 10, 64)
	shard, err2 := strconv.Atoi(f[2])
	token, err3 := strconv.ParseInt(f[3], 10, 64)
	return line{kind: f[0][0], at: time.Unix(0, at), shard: shard, token: token, member: f[4], cause: f[5]}, errors.Join(err1, err2, err3)
}

// journalWriter appends to the journal, each line in one write, so that lines of
// different processes do not mix and outlive a kill -9.
type journalWriter struct{ file *os.File }

func openJournal(path string) (*journalWriter, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	return &journalWriter{f}, nil
}

// write ends the process if it cannot: an account with gaps proves nothing.
func (w *journalWriter) write(l line) {
	var room [128]byte
	if _, err := w.file.Write(l.append(room[:0])); err != nil {
		fmt.Fprintln(os.Stderr, "write to the journal:", err)
		os.Exit(4)
	}
}

// journalReader reads what was added to a journal.
type journalReader struct {
	file *os.File
	read int64
	rest []byte
}

func newJournalReader(path string) (*journalReader, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDONLY, 0o600)
	if err != nil {
		return nil, err
	}
	return &journalReader{file: f}, nil
}

// take calls add for each line that was added since.
func (r *journalReader) take(add func(line)) error {
	const part = 1 << 18
	buf := make([]byte, part)
	for {
		n, err := r.file.ReadAt(buf, r.read)
		r.read += int64(n)
		r.rest = append(r.rest, buf[:n]...)
		for {
			text, rest, whole := bytes.Cut(r.rest, []byte("\n"))
			if !whole {
				break
			}
			l, err := parseLine(string(text))
			if err != nil {
				return err
			}
			add(l)
			r.rest = rest
		}
		r.rest = bytes.Clone(r.rest)
		switch {
		case errors.Is(err, io.EOF), err == nil && n == 0:
			return nil
		case err != nil:
			return err
		}
	}
}
