package faultkit

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// maxValueBytes bounds one value that passes a proxy.
const maxValueBytes = 512 << 20

var errProtocol = errors.New("not the protocol of Redis")

// readValue copies one whole value of the Redis protocol from r to raw, and
// returns its kind: the byte that it begins with.
func readValue(r *bufio.Reader, raw *bytes.Buffer) (byte, error) {
	line, err := r.ReadSlice('\n')
	if err != nil {
		return 0, err
	}
	if len(line) < 3 {
		return 0, fmt.Errorf("%w: the line %q", errProtocol, line)
	}
	raw.Write(line)
	kind, rest := line[0], string(line[1:len(line)-2])
	switch kind {
	case '$', '=', '!': // bytes with their length
		n, err := strconv.Atoi(rest)
		if err != nil || n > maxValueBytes {
			return 0, fmt.Errorf("%w: the length %q", errProtocol, rest)
		}
		if n < 0 {
			return kind, nil
		}
		_, err = io.CopyN(raw, r, int64(n)+2)
		return kind, err
	case '*', '~', '>', '%', '|': // values with their count
		n, err := strconv.Atoi(rest)
		if err != nil {
			return 0, fmt.Errorf("%w: the count %q", errProtocol, rest)
		}
		if kind == '%' || kind == '|' {
			n *= 2
		}
		for range n {
			if _, err := readValue(r, raw); err != nil {
				return 0, err
			}
		}
		if kind == '|' { // an attribute comes before the value that it belongs to
			return readValue(r, raw)
		}
		return kind, nil
	default: // a line
		return kind, nil
	}
}

// commandName returns the first word of a request, in upper case.
func commandName(request []byte) string {
	// *3\r\n$4\r\nXADD\r\n…
	parts := bytes.SplitN(request, []byte("\r\n"), 4)
	if len(parts) < 4 {
		return ""
	}
	return string(bytes.ToUpper(parts[2]))
}

// nothing reports whether a reply says that there is nothing.
func nothing(reply []byte) bool {
	return bytes.Equal(reply, []byte("_\r\n")) || bytes.Equal(reply, []byte("*-1\r\n")) || bytes.Equal(reply, []byte("$-1\r\n"))
}
