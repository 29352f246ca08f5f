package blackbox

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// line is a line of the input of `rsc produce`.
type line struct {
	Key string
	// Seq counts the lines of the key, from 0.
	Seq  int
	Text string
}

// encode returns the line without its end, for keys and texts in which there is
// nothing to escape.
func (l line) encode() string {
	return fmt.Sprintf(`{"key":%q,"seq":%d,"text":%q}`, l.Key, l.Seq, l.Text)
}

// decodeLine undoes encode. It is no general decoder: under the race detector
// one is too slow for so many lines.
func decodeLine(text string) (line, error) {
	var l line
	text, begins := strings.CutPrefix(text, `{"key":"`)
	key, text, hasSeq := strings.Cut(text, `","seq":`)
	seq, text, hasText := strings.Cut(text, `,"text":"`)
	rest, ends := strings.CutSuffix(text, `"}`)
	n, err := strconv.Atoi(seq)
	if !begins || !hasSeq || !hasText || !ends || err != nil {
		return l, fmt.Errorf("no line of ours: %q", text)
	}
	return line{Key: key, Seq: n, Text: rest}, nil
}

// printed is a record as `rsc consume` prints it, as far as it is looked at.
type printed struct {
	Shard  int    `json:"shard"`
	Key    string `json:"key"`
	Token  int64  `json:"token"`
	Values struct {
		Payload string `json:"payload"`
	} `json:"values"`
}

// journal is the file that all consumers of a test print to. Each of them writes
// a line with one call to a file that is opened for appending, so the order of
// the lines is the order in which the records came out, over all processes.
type journal struct {
	t    *testing.T
	file *os.File
	// read is how much of the file has been taken in, rest what of it is not
	// understood yet: lines, and the beginning of one.
	read int64
	rest []byte
	// ends counts the ends of lines in what was taken in.
	ends int

	// lines counts the lines, payloads how often each payload came out.
	lines    int
	payloads map[string]int
	// last is the highest line of each key so far.
	last map[string]int
	// disorder are the first occurrences that came after a later line of their
	// key.
	disorder []string
	// tokens are those of each shard in the order in which they first came.
	tokens map[int][]int64
}

func newJournal(t *testing.T) *journal {
	t.Helper()
	return &journal{t: t, file: newFile(t, "journal.ndjson"), payloads: map[string]int{}, last: map[string]int{}, tokens: map[int][]int64{}}
}

// count returns how many lines there are by now, repetitions included, without
// looking at them.
func (j *journal) count() int {
	j.t.Helper()
	info, err := j.file.Stat()
	if err != nil {
		j.t.Fatal(err)
	}
	part, err := io.ReadAll(io.NewSectionReader(j.file, j.read, info.Size()-j.read))
	if err != nil {
		j.t.Fatal(err)
	}
	j.read += int64(len(part))
	j.ends += bytes.Count(part, []byte("\n"))
	j.rest = append(j.rest, part...)
	return j.ends
}

// take looks at what was added since, and returns how many different payloads
// there are by now.
func (j *journal) take() int {
	j.t.Helper()
	j.count()
	for {
		text, rest, whole := bytes.Cut(j.rest, []byte("\n"))
		if !whole {
			return len(j.payloads)
		}
		j.rest = rest
		j.add(text)
	}
}

func (j *journal) add(text []byte) {
	j.t.Helper()
	var r printed
	if err := json.Unmarshal(text, &r); err != nil {
		j.t.Fatalf("a consumer printed %q: %v", text, err)
	}
	payload := r.Values.Payload
	l, err := decodeLine(payload)
	if err != nil || l.Key != r.Key {
		j.t.Fatalf("a consumer printed %q under the key %q: %v", text, r.Key, err)
	}
	j.lines++
	j.payloads[payload]++
	if seen := j.tokens[r.Shard]; len(seen) == 0 || seen[len(seen)-1] != r.Token {
		j.tokens[r.Shard] = append(seen, r.Token)
	}
	last, known := j.last[l.Key]
	switch {
	case j.payloads[payload] > 1:
	case known && l.Seq <= last:
		j.disorder = append(j.disorder, fmt.Sprintf("%s: line %d came after line %d", l.Key, l.Seq, last))
	default:
		j.last[l.Key] = l.Seq
	}
}

// lastWrite returns when the last line was written.
func (j *journal) lastWrite() time.Time {
	j.t.Helper()
	info, err := j.file.Stat()
	if err != nil {
		j.t.Fatal(err)
	}
	return info.ModTime()
}

// duplicates returns how many lines are repetitions.
func (j *journal) duplicates() int { return j.lines - len(j.payloads) }

// expectOrder fails the test if a line came out of the order of its key for the
// first time, or if a shard's token went back.
func (j *journal) expectOrder() {
	j.t.Helper()
	for i, complaint := range j.disorder {
		if i == 10 {
			j.t.Errorf("and %d more", len(j.disorder)-i)
			break
		}
		j.t.Error(complaint)
	}
	for shard, tokens := range j.tokens {
		for i := 1; i < len(tokens); i++ {
			if tokens[i] < tokens[i-1] {
				j.t.Errorf("shard %d: a record came out under token %d after one under %d", shard, tokens[i], tokens[i-1])
			}
		}
	}
}

// expectAll fails the test unless every payload of a set came out, and nothing
// else. It returns how many did not.
func (j *journal) expectAll(payloads map[string]int) (missing int) {
	j.t.Helper()
	for payload := range payloads {
		if j.payloads[payload] == 0 {
			if missing++; missing <= 10 {
				j.t.Errorf("never came out: %s", payload)
			}
		}
	}
	if missing > 10 {
		j.t.Errorf("%d records never came out", missing)
	}
	for payload := range j.payloads {
		if payloads[payload] == 0 {
			j.t.Errorf("came out, although it is not in the stream: %s", payload)
		}
	}
	return missing
}

// contents returns a file's lines as a text, for messages.
func contents(t *testing.T, f *os.File) string {
	t.Helper()
	text, err := os.ReadFile(f.Name())
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// writeLines writes a file with n lines for each of keys keys, the keys taking
// turns, and returns its path and all lines.
func writeLines(t *testing.T, path string, keys, n int) map[string]int {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w := bufio.NewWriter(f)
	all := make(map[string]int, keys*n)
	for seq := range n {
		for key := range keys {
			text := line{Key: fmt.Sprintf("customer-%04d", key), Seq: seq, Text: "twelve widgets, and the receipt by mail"}.encode()
			if _, err := fmt.Fprintln(w, text); err != nil {
				t.Fatal(err)
			}
			all[text]++
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return all
}
