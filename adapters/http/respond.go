package httpapi

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/gin-gonic/gin"
)

const (
	contentType = "application/json; charset=utf-8"
	// etagBytes is how much of the digest goes into an entity tag.
	etagBytes = 18
)

// reply is what a handler answers.
type reply struct {
	status int
	body   any
	// raw answers instead of everything else.
	raw http.Handler
	// tagged gives the answer an entity tag and answers 304 to a caller who
	// has it already.
	tagged bool
}

func ok(body any) reply { return reply{status: http.StatusOK, body: body} }

// handler answers one request; its errors go through refuse.
type handler func(c *gin.Context) (reply, error)

// handle makes a handler one of the router.
func (a *api) handle(h handler) gin.HandlerFunc {
	return func(c *gin.Context) {
		r, err := h(c)
		if err != nil {
			a.refuse(c, err)
			return
		}
		a.send(c, r)
	}
}

// The values of headers that every answer has. Nobody changes them in place.
var (
	noSniff    = []string{"nosniff"}
	noStore    = []string{"no-store"}
	plainJSON  = []string{contentType}
	revalidate = []string{"private, no-cache"}
)

// appender is a body that writes itself, faster than encoding/json would.
type appender interface {
	AppendJSON(b []byte) []byte
	SizeHint() int
}

// send writes the answer as compact JSON and ends the request.
func (a *api) send(c *gin.Context, r reply) {
	c.Abort()
	if r.raw != nil {
		r.raw.ServeHTTP(c.Writer, c.Request)
		return
	}
	body := takeBuffer()
	defer giveBack(body)
	if err := encode(body, r.body); err != nil {
		a.refuse(c, fmt.Errorf("encode %T: %w", r.body, err))
		return
	}
	header := c.Writer.Header()
	header["X-Content-Type-Options"] = noSniff
	header["Cache-Control"] = noStore
	if r.tagged {
		tag := entityTag(body.Bytes())
		header.Set("ETag", tag)
		header["Cache-Control"] = revalidate
		if hasTag(c.GetHeader("If-None-Match"), tag) {
			c.Status(http.StatusNotModified)
			c.Writer.WriteHeaderNow()
			return
		}
	}
	header["Content-Type"] = plainJSON
	if d, other := r.body.(document); other {
		d.describe(header)
	}
	header["Content-Length"] = []string{strconv.Itoa(body.Len())}
	c.Status(r.status)
	// The only error is that the caller is gone.
	_, _ = c.Writer.Write(body.Bytes())
}

// encode writes v to an empty buffer.
func encode(b *bytes.Buffer, v any) error {
	if own, ok := v.(appender); ok {
		b.Grow(own.SizeHint())
		_, err := b.Write(own.AppendJSON(b.AvailableBuffer()))
		return err
	}
	encoder := json.NewEncoder(b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return err
	}
	b.Truncate(b.Len() - 1) // the encoder's line feed
	return nil
}

// entityTag is a digest of the body, so it changes with whatever the caller
// would see, and is the same on every coordinator.
func entityTag(body []byte) string {
	sum := sha256.Sum256(body)
	return `"` + base64.RawURLEncoding.EncodeToString(sum[:etagBytes]) + `"`
}

// hasTag reports whether an If-None-Match header names tag. A proxy may have
// made the tag a weak one.
func hasTag(header, tag string) bool {
	for one := range strings.SplitSeq(header, ",") {
		one = strings.TrimSpace(one)
		if one == "*" || strings.TrimPrefix(one, "W/") == tag {
			return true
		}
	}
	return false
}
