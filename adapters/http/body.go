package httpapi

import (
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// readBody reads a JSON body of at most limit bytes and has it decoded; decode must
// keep nothing of it.
// Errors: errMedia for another content type, protocol.ErrTooLarge above limit,
// protocol.ErrInvalidRequest when the body breaks off; those of decode.
func readBody(c *gin.Context, limit int, decode func(body []byte) error) error {
	if err := checkContentType(c.GetHeader("Content-Type")); err != nil {
		return err
	}
	b := takeBuffer()
	defer giveBack(b)
	_, err := b.ReadFrom(http.MaxBytesReader(c.Writer, c.Request.Body, int64(limit)))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return protocol.ErrTooLarge.With("the body is larger than %d bytes, the most that this call takes", limit)
	case err != nil:
		return fmt.Errorf("read body: %w", errors.Join(protocol.ErrInvalidRequest.With("body: broke off before its end"), err))
	}
	return decode(b.Bytes())
}

// readAdmin reads the body of an admin call into v.
func readAdmin(c *gin.Context, v any) error {
	return readBody(c, protocol.MaxAdminBytes, func(body []byte) error { return protocol.Decode(body, v) })
}

// readHeartbeat reads and validates a heartbeat of at most limit bytes.
func readHeartbeat(c *gin.Context, limit int) (q *protocol.Heartbeat, err error) {
	err = readBody(c, limit, func(body []byte) error {
		q, err = protocol.DecodeHeartbeat(body)
		return err
	})
	return q, err
}

// checkContentType takes JSON and types built on it. A body without a type is
// taken for JSON too, since scripts leave it out.
func checkContentType(header string) error {
	if header == "" || header == "application/json" {
		return nil
	}
	kind, _, err := mime.ParseMediaType(header)
	if err != nil || kind != "application/json" && !(strings.HasPrefix(kind, "application/") && strings.HasSuffix(kind, "+json")) {
		return errMedia.With("the body cannot be %.80q: send JSON with Content-Type: application/json", header)
	}
	return nil
}
