package httpapi

import (
	"fmt"
	"log/slog"
	"net/http"
	"sync"

	"github.com/gin-gonic/gin"
)

// api holds what the handlers share.
type api struct {
	config      Config
	coordinator Coordinator
	auth        *authenticator
	log         *slog.Logger
	// heartbeatPath is the heartbeat's route as the router knows it.
	heartbeatPath string
}

// quietRouter switches gin's debug output off, once: the mode is the process's.
var quietRouter = sync.OnceFunc(func() { gin.SetMode(gin.ReleaseMode) })

// New returns the API of coordinator as a handler. It starts no goroutine, and
// holds a request only as long as the coordinator does.
// Errors: all complaints about config, joined.
func New(config Config, coordinator Coordinator) (http.Handler, error) {
	config = config.withDefaults()
	if err := config.validate(); err != nil {
		return nil, fmt.Errorf("http api: %w", err)
	}
	a := &api{
		config:        config,
		coordinator:   coordinator,
		auth:          newAuthenticator(config.Users),
		log:           config.Logger,
		heartbeatPath: config.BasePath + heartbeatRoute,
	}
	quietRouter()
	router := gin.New()
	router.RedirectTrailingSlash = false
	router.HandleMethodNotAllowed = true
	router.UseEscapedPath = true
	router.UnescapePathValues = false
	router.ForwardedByClientIP = false
	router.Use(a.logRequests, a.recoverPanics, a.refuseEncodedSlash)
	router.NoRoute(func(c *gin.Context) { a.refuse(c, errNoRoute) })
	router.NoMethod(func(c *gin.Context) { a.refuse(c, errMethod) })
	for _, r := range a.routes() {
		a.add(router, r)
	}
	return router, nil
}

// add makes a route known to the router. Whoever may GET may ask for the head.
func (a *api) add(router *gin.Engine, r route) {
	var chain []gin.HandlerFunc
	if r.needs != open {
		chain = append(chain, a.require(r.needs))
	}
	chain = append(chain, a.handle(r.handler))
	router.Handle(r.method, r.path, chain...)
	if r.method == http.MethodGet {
		router.Handle(http.MethodHead, r.path, chain...)
	}
}
