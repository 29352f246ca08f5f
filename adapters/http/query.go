package httpapi

import (
	"net/url"
	"strconv"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// query are the parameters of a request behind the question mark.
type query struct{ values url.Values }

// queryOf reads them. Errors: protocol.ErrInvalidRequest where they cannot be read.
func queryOf(c *gin.Context) (query, error) {
	values, err := url.ParseQuery(c.Request.URL.RawQuery)
	if err != nil {
		return query{}, protocol.ErrInvalidRequest.With("query: cannot be read: percent-encode it")
	}
	return query{values}, nil
}

// text returns the first value of a parameter, fallback where there is none, or it is
// blank.
func (q query) text(name, fallback string) string {
	if v := q.values.Get(name); strings.TrimSpace(v) != "" {
		return v
	}
	return fallback
}

// group returns the parameters streamPrefix and consumerGroup, which must be there and
// may be blank. Errors: protocol.ErrInvalidRequest.
func (q query) group() (prefix, group string, err error) {
	for _, name := range []string{"streamPrefix", "consumerGroup"} {
		if !q.values.Has(name) {
			return "", "", protocol.ErrInvalidRequest.With("%s: is missing from the query", name)
		}
	}
	prefix, group = q.text("streamPrefix", ""), q.text("consumerGroup", "")
	if prefix != "" {
		err = protocol.ValidatePrefix("streamPrefix", prefix)
	}
	if group != "" && err == nil {
		err = protocol.ValidateName("consumerGroup", group)
	}
	return prefix, group, err
}

// number returns a parameter that is a whole number.
// Errors: protocol.ErrInvalidRequest.
func (q query) number(name string, fallback int) (int, error) {
	text := q.text(name, "")
	if text == "" {
		return fallback, nil
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return 0, protocol.ErrInvalidRequest.With("%s: is %.40q, must be a whole number", name, text)
	}
	return int(n), nil
}

// defaultLimit is the number of records on a page.
const defaultLimit = 25

// page reads direction, cursor and limit. A limit is clamped to what is allowed.
func (q query) page() (m protocol.MessageQuery, err error) {
	m.Direction = protocol.Direction(q.text("direction", string(protocol.Backward)))
	if m.Direction != protocol.Forward && m.Direction != protocol.Backward {
		return m, protocol.ErrInvalidRequest.With("direction: is %.40q, must be FORWARD or BACKWARD", string(m.Direction))
	}
	m.Cursor = q.text("cursor", "")
	if m.Limit, err = q.number("limit", defaultLimit); err != nil {
		return m, err
	}
	m.Limit = min(max(m.Limit, 1), protocol.MaxMessages)
	return m, nil
}

// shardInPath returns the shard that the path names.
func shardInPath(c *gin.Context) (protocol.ShardIndex, error) {
	text, err := url.PathUnescape(c.Param("shardIndex"))
	if err != nil {
		return 0, protocol.ErrInvalidRequest.With("shardIndex: is not a valid part of a URL")
	}
	return shardOf(text)
}

func shardOf(text string) (protocol.ShardIndex, error) {
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < 0 || n >= protocol.MaxShards {
		return 0, protocol.ErrInvalidRequest.With("shardIndex: is %.40q, must be a number from 0 to %d", text, protocol.MaxShards-1)
	}
	return protocol.ShardIndex(n), nil
}
