package httpapi

import (
	"net/url"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// pathName returns the decoded path parameter. The router matches the path as
// it was sent, and would decode a plus sign to a blank, so it is decoded here.
func pathName(c *gin.Context, parameter string) (string, error) {
	name, err := url.PathUnescape(c.Param(parameter))
	if err != nil {
		return "", protocol.ErrInvalidRequest.With("%s: is not a valid part of a URL", parameter)
	}
	return name, protocol.ValidateName(parameter, name)
}

// streamPrefix returns the stream that the path names.
func streamPrefix(c *gin.Context) (string, error) {
	prefix, err := pathName(c, "streamPrefix")
	if err != nil {
		return "", err
	}
	return prefix, protocol.ValidatePrefix("streamPrefix", prefix)
}

// streamAndGroup returns the group that the path names.
func streamAndGroup(c *gin.Context) (prefix, group string, err error) {
	if prefix, err = streamPrefix(c); err != nil {
		return "", "", err
	}
	group, err = pathName(c, "consumerGroup")
	return prefix, group, err
}

// refuseEncodedSlash answers 400 for a path with an encoded slash: whether it
// separates or belongs to a name is read differently by proxies, routers and
// people, so nothing may be decided by it.
func (a *api) refuseEncodedSlash(c *gin.Context) {
	path := c.Request.URL.EscapedPath()
	if strings.Contains(path, "%") && strings.Contains(strings.ToLower(path), "%2f") {
		a.refuse(c, protocol.ErrInvalidRequest.With("path: must not contain an encoded slash (%%2F)"))
	}
}
