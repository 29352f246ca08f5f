package httpapi

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// readBody reads a JSON body of at most limit bytes.
// Errors: errMedia for another content type, protocol.ErrTooLarge above limit,
// protocol.ErrInvalidRequest when the body breaks off.
func readBody(c *gin.Context, limit int) ([]byte, error) {
	if err := checkContentType(c.GetHeader("Content-Type")); err != nil {
		return nil, err
	}
	body, err := io.ReadAll(http.MaxBytesReader(c.Writer, c.Request.Body, int64(limit)))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, protocol.ErrTooLarge.With("the body is larger than %d bytes, the most that this call takes", limit)
	case err != nil:
		return nil, fmt.Errorf("read body: %w", errors.Join(protocol.ErrInvalidRequest.With("body: broke off before its end"), err))
	}
	return body, nil
}

// readAdmin reads the body of an admin call into v.
func readAdmin(c *gin.Context, v any) error {
	body, err := readBody(c, protocol.MaxAdminBytes)
	if err != nil {
		return err
	}
	return protocol.Decode(body, v)
}

// checkContentType takes JSON and types built on it. A body without a type is
// taken for JSON too, since scripts leave it out.
func checkContentType(header string) error {
	if header == "" {
		return nil
	}
	kind, _, err := mime.ParseMediaType(header)
	if err != nil || kind != "application/json" && !(strings.HasPrefix(kind, "application/") && strings.HasSuffix(kind, "+json")) {
		return errMedia.With("the body cannot be %.80q: send JSON with Content-Type: application/json", header)
	}
	return nil
}
