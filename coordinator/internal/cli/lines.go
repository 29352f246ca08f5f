package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
)

// maxLineBytes bounds a line of the input.
const maxLineBytes = 1 << 20

// line is one line of the input, without its end.
type line struct {
	number int64
	// text is nil when tooLong.
	text    []byte
	tooLong bool
	// end is how many bytes of the input lie before the next line.
	end int64
}

// maxBatchLines and maxBatchBytes bound the lines that are handled together; the
// last of them may exceed the bytes.
const (
	maxBatchLines = 1000
	maxBatchBytes = 4 << 20
)

// readLines sends the lines of r to out, as many together as are there without
// waiting for more, and closes it when the input or ctx ends.
// Errors: what reading failed with; the cause of ctx.
func readLines(ctx context.Context, r io.Reader, out chan<- []line) error {
	defer close(out)
	in := bufio.NewReaderSize(r, 64<<10)
	var batch []line
	var number, size, end int64
	for {
		text, n, err := readLine(in)
		if n > 0 {
			number, size, end = number+1, size+int64(len(text)), end+int64(n)
			batch = append(batch, line{number: number, text: text, tooLong: text == nil, end: end})
		}
		if len(batch) > 0 && (err != nil || len(batch) == maxBatchLines || size >= maxBatchBytes || !hasLine(in)) {
			select {
			case out <- batch:
				batch, size = nil, 0
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("read line %d: %w", number+1, err)
		}
	}
}

// hasLine reports whether a whole line can be had without reading more.
func hasLine(in *bufio.Reader) bool {
	there, _ := in.Peek(in.Buffered()) // cannot fail for what is there
	return bytes.IndexByte(there, '\n') >= 0
}

// readLine returns a line without its end, and its size with it. text is nil for
// a line beyond maxLineBytes, which is passed over.
func readLine(in *bufio.Reader) (text []byte, size int, err error) {
	text = []byte{}
	for {
		part, err := in.ReadSlice('\n')
		size += len(part)
		if text != nil {
			text = append(text, part...)
		}
		// Room for the end of the line, which does not count.
		if len(text) > maxLineBytes+len("\r\n") {
			text = nil
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if text != nil {
			text = bytes.TrimSuffix(bytes.TrimSuffix(text, []byte("\n")), []byte("\r"))
		}
		if len(text) > maxLineBytes {
			text = nil
		}
		return text, size, err
	}
}

// maxRanges bounds the ranges that are remembered.
const maxRanges = 200

// lineNumbers remembers numbers, which come in ascending order, as ranges.
type lineNumbers struct {
	count  int64
	ranges [][2]int64
	more   bool
}

func (n *lineNumbers) add(number int64) {
	n.count++
	if last := len(n.ranges) - 1; last >= 0 && n.ranges[last][1] == number-1 && !n.more {
		n.ranges[last][1] = number
		return
	}
	if len(n.ranges) == maxRanges {
		n.more = true
		return
	}
	n.ranges = append(n.ranges, [2]int64{number, number})
}

// String lists the ranges, such as 3, 7-9.
func (n *lineNumbers) String() string {
	var b strings.Builder
	for i, r := range n.ranges {
		if i > 0 {
			b.WriteString(", ")
		}
		if r[0] == r[1] {
			fmt.Fprint(&b, r[0])
		} else {
			fmt.Fprintf(&b, "%d-%d", r[0], r[1])
		}
	}
	if n.more {
		b.WriteString(", …")
	}
	return b.String()
}
