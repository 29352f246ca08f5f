package dataplane

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

// What an event says.
const (
	began    byte = 'B'
	finished byte = 'E'
	failed   byte = 'F'
)

// event is a line of the journal: a handler began with a record, or ended.
type event struct {
	kind       byte
	at         time.Time
	shard      int
	id         string
	token      int64
	deliveries int
	member     string
	key        string
	seq        int
}

func (e event) append(line []byte) []byte {
	return fmt.Appendf(line, "%c %d %d %s %d %d %s %s %d\n", e.kind, e.at.UnixNano(), e.shard, e.id, e.token, e.deliveries, e.member, e.key, e.seq)
}

func parseEvent(line string) (event, error) {
	f := strings.Split(line, " ")
	if len(f) != 9 || len(f[0]) != 1 {
		return event{}, fmt.Errorf("no line of the journal: %q", line)
	}
	var bad []error
	number := func(text string) int64 {
		n, err := strconv.ParseInt(text, 10, 64)
		bad = append(bad, err)
		return n
	}
	e := event{
		kind: f[0][0], at: time.Unix(0, number(f[1])), shard: int(number(f[2])), id: f[3], token: number(f[4]),
		deliveries: int(number(f[5])), member: f[6], key: f[7], seq: int(number(f[8])),
	}
	return e, errors.Join(bad...)
}

// journalWriter appends to the journal. Every event is one write to a file that
// is opened for appending, so the order of the lines is the order in which things
// happened, over all processes; and what was written is there after a kill -9.
type journalWriter struct{ file *os.File }

func openJournal(path string) (*journalWriter, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	return &journalWriter{f}, nil
}

// write ends the process if it cannot: an account with gaps proves nothing.
func (w *journalWriter) write(e event) {
	var room [160]byte
	if _, err := w.file.Write(e.append(room[:0])); err != nil {
		fmt.Fprintln(os.Stderr, "write to the journal:", err)
		os.Exit(4)
	}
}

func (w *journalWriter) close() error { return w.file.Close() }

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

// take calls add for each event that was added since.
func (r *journalReader) take(add func(event)) error {
	const part = 1 << 20
	for {
		buf := make([]byte, part)
		n, err := r.file.ReadAt(buf, r.read)
		r.read += int64(n)
		r.rest = append(r.rest, buf[:n]...)
		for {
			line, rest, whole := bytes.Cut(r.rest, []byte("\n"))
			if !whole {
				break
			}
			e, err := parseEvent(string(line))
			if err != nil {
				return err
			}
			add(e)
			r.rest = rest
		}
		if errors.Is(err, io.EOF) || n == 0 {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
