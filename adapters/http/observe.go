package httpapi

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/gin-gonic/gin"
)

// Served is a request under the base path that was answered.
type Served struct {
	Method string
	// Route is the path with names in braces, such as /coord/v1/streams/{streamPrefix};
	// empty where no route fits.
	Route string
	// Stream and Group are those that the path names, which need not exist; both are
	// empty where it names no group.
	Stream, Group string
	Status        int
	// Code is that of the error that was answered, empty for none.
	Code string
	Took time.Duration
}

// Trace begins the span of a request. What it returns is the request's context, and the
// function that ends the span.
type Trace func(r *http.Request, route string) (ctx context.Context, end func(status int))

// refusalKey is where a refusal leaves its code.
type refusalKey struct{}

// observe tells of the requests under the base path.
func (a *api) observe(c *gin.Context) {
	if a.config.Observe == nil && a.config.Trace == nil || !strings.HasPrefix(c.Request.URL.Path, a.config.BasePath+"/") {
		return
	}
	route := a.templates[c.FullPath()]
	if a.config.Trace != nil {
		ctx, end := a.config.Trace(c.Request, route)
		c.Request = c.Request.WithContext(ctx)
		defer func() { end(c.Writer.Status()) }()
	}
	if a.config.Observe != nil {
		// Deferred, because a handler may break the connection off by a panic.
		defer a.served(c, route, time.Now())
	}
	c.Next()
}

func (a *api) served(c *gin.Context, route string, start time.Time) {
	s := Served{Method: c.Request.Method, Route: route, Status: c.Writer.Status(), Took: time.Since(start)}
	if c.Param("consumerGroup") != "" {
		if prefix, group, err := streamAndGroup(c); err == nil {
			s.Stream, s.Group = prefix, group
		}
	}
	if code, refused := c.Get(refusalKey{}); refused {
		s.Code, _ = code.(string)
	}
	a.config.Observe(s)
}

// template writes a path of the router with its names in braces.
func template(path string) string {
	parts := strings.Split(path, "/")
	for i, part := range parts {
		if name, is := strings.CutPrefix(part, ":"); is {
			parts[i] = "{" + name + "}"
		}
	}
	return strings.Join(parts, "/")
}

// metricsRoutes are where scrapers look, here and in existing installations.
func (a *api) metricsRoutes() []route {
	if a.config.Metrics == nil {
		return nil
	}
	needs := open
	if a.config.AuthenticateMetrics {
		needs = mayRead
	}
	return []route{
		{http.MethodGet, "/metrics", needs, a.getMetrics},
		{http.MethodGet, "/actuator/prometheus", needs, a.getMetrics},
	}
}

func (a *api) getMetrics(*gin.Context) (reply, error) { return reply{raw: a.config.Metrics}, nil }
