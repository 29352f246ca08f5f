package httpload

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"
)

const (
	readBuffer = 8 << 10
	// maxAnswerBytes bounds an answer: that for a member with every shard there may be.
	maxAnswerBytes = 8 << 20
	maxHeaderLines = 100
)

// Conn is one connection, which carries one request at a time.
type Conn struct {
	net net.Conn
	in  *bufio.Reader
	// body is where the last answer lies that did not fit into the buffer of in.
	body []byte
	// closing is set by an answer after which the other end takes nothing more.
	closing bool
}

// Dial connects to the target.
func Dial(ctx context.Context, t *Target) (*Conn, error) {
	c, err := t.dial(ctx)
	if err != nil {
		return nil, err
	}
	return &Conn{net: c, in: bufio.NewReaderSize(c, readBuffer)}, nil
}

// Close closes the connection; a request that is under way fails.
func (c *Conn) Close() error { return c.net.Close() }

// RoundTrip sends the bytes of a request and returns the answer, which is good
// until the next call. within bounds the wait, 0 for no bound. After an error the
// connection is of no use any more.
// Errors: a broken connection; an answer that is not as a coordinator's are.
func (c *Conn) RoundTrip(request []byte, within time.Duration) (status int, body []byte, err error) {
	if err := c.Send(request, within); err != nil {
		return 0, nil, err
	}
	return c.receive()
}

// Send sends a request without waiting for the answer. within bounds that and the
// answer, 0 for no bound.
func (c *Conn) Send(request []byte, within time.Duration) error {
	if c.closing {
		return errClosing
	}
	if err := c.bound(within); err != nil {
		return err
	}
	_, err := c.net.Write(request)
	return err
}

// Receive waits for the answer to what was sent last, as RoundTrip does.
func (c *Conn) Receive(within time.Duration) (status int, body []byte, err error) {
	if err := c.bound(within); err != nil {
		return 0, nil, err
	}
	return c.receive()
}

func (c *Conn) bound(within time.Duration) error {
	if within == 0 {
		return nil
	}
	return c.net.SetDeadline(time.Now().Add(within))
}

func (c *Conn) receive() (status int, body []byte, err error) {
	status, length, err := c.readHead()
	if err != nil {
		return 0, nil, err
	}
	if length <= c.in.Size() {
		if body, err = c.in.Peek(length); err == nil {
			_, err = c.in.Discard(length)
		}
		return status, body, err
	}
	if cap(c.body) < length {
		c.body = make([]byte, length)
	}
	c.body = c.body[:length]
	_, err = io.ReadFull(c.in, c.body)
	return status, c.body, err
}

var (
	lengthHeader     = []byte("content-length:")
	connectionHeader = []byte("connection:")
	closeValue       = []byte("close")
)

// errClosing: the last answer said so.
var errClosing = errors.New("the coordinator closes the connection: it shuts down")

var errHead = errors.New("the answer is not one of HTTP/1.1 with a Content-Length")

// readHead reads the first line and the headers of an answer. Only what a
// coordinator sends is understood.
func (c *Conn) readHead() (status, length int, err error) {
	line, err := c.in.ReadSlice('\n')
	if err != nil {
		return 0, 0, err
	}
	if len(line) < len("HTTP/1.1 200") || !bytes.HasPrefix(line, []byte("HTTP/1.1 ")) {
		return 0, 0, errHead
	}
	if status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return 0, 0, errHead
	}
	length = -1
	for range maxHeaderLines {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			return 0, 0, err
		}
		line = bytes.TrimRight(line, "\r\n")
		switch {
		case len(line) == 0 && length < 0:
			return 0, 0, errHead
		case len(line) == 0:
			return status, length, nil
		case hasPrefixFold(line, lengthHeader):
			length, err = strconv.Atoi(string(bytes.TrimSpace(line[len(lengthHeader):])))
			if err != nil || length < 0 || length > maxAnswerBytes {
				return 0, 0, fmt.Errorf("%w: %.60q", errHead, line)
			}
		case hasPrefixFold(line, connectionHeader) && bytes.Contains(bytes.ToLower(line), closeValue):
			c.closing = true
		}
	}
	return 0, 0, errHead
}

func hasPrefixFold(line, prefix []byte) bool {
	return len(line) >= len(prefix) && bytes.EqualFold(line[:len(prefix)], prefix)
}
