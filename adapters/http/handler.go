package httpapi

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/gin-gonic/gin"

	"github.com/redis-stream-coordinator/rsc/core/port"
)

// api holds what the handlers share.
type api struct {
	config      Config
	coordinator Coordinator
	log         *slog.Logger
	// access is replaced as a whole, and ownSecret signs tokens while it has no secret.
	access    atomic.Pointer[access]
	ownSecret string
	guesses   *throttle
	limiter   *limiter
	// actions are the routes that are audited.
	actions map[string]string
	// heartbeatPath is the heartbeat's route as the router knows it.
	heartbeatPath string
	// templates are the routes with their names in braces, by how the router knows them.
	templates map[string]string
}

// quietRouter switches gin's debug output off, once: the mode is the process's.
var quietRouter = sync.OnceFunc(func() { gin.SetMode(gin.ReleaseMode) })

// API is the API of a coordinator as a handler. Make one with New.
type API struct {
	api    *api
	router *gin.Engine
}

// ServeHTTP answers a request.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.router.ServeHTTP(w, r) }

// SetAccess replaces who may call the API and how often, from the next request on.
// What was counted so far stays counted.
// Errors: all complaints about access, joined; nothing is replaced then.
func (a *API) SetAccess(access Access) error {
	if err := access.Validate(); err != nil {
		return err
	}
	a.api.access.Store(access.compile(a.api.ownSecret))
	return nil
}

// Record keeps an entry in the audit about what did not come by the API. An entry that
// cannot be kept goes to the log.
func (a *API) Record(ctx context.Context, e port.AuditEntry) { a.api.keep(ctx, e) }

// New returns the API of coordinator. It starts no goroutine, and holds a request
// only as long as the coordinator does.
// Errors: all complaints about config, joined.
func New(config Config, coordinator Coordinator) (*API, error) {
	config = config.withDefaults()
	if err := config.validate(); err != nil {
		return nil, fmt.Errorf("http api: %w", err)
	}
	a := &api{
		config:        config,
		coordinator:   coordinator,
		log:           config.Logger,
		ownSecret:     randomSecret(),
		guesses:       newThrottle(),
		limiter:       newLimiter(),
		heartbeatPath: config.BasePath + heartbeatRoute,
	}
	a.access.Store(config.Access.compile(a.ownSecret))
	quietRouter()
	router := gin.New()
	router.RedirectTrailingSlash = false
	router.HandleMethodNotAllowed = true
	router.UseEscapedPath = true
	router.UnescapePathValues = false
	router.ForwardedByClientIP = false
	list := a.routes()
	a.actions = a.auditedRoutes(list)
	a.templates = make(map[string]string, len(list))
	for _, r := range list {
		a.templates[r.path] = template(r.path)
	}
	router.Use(a.observe, a.logRequests, a.recoverPanics, a.audit, a.refuseEncodedSlash)
	router.NoRoute(func(c *gin.Context) { a.refuse(c, errNoRoute) })
	router.NoMethod(func(c *gin.Context) { a.refuse(c, errMethod) })
	for _, r := range list {
		a.add(router, r)
	}
	return &API{a, router}, nil
}

// add makes a route known to the router. Whoever may GET may ask for the head.
func (a *api) add(router *gin.Engine, r route) {
	var chain []gin.HandlerFunc
	if r.needs != open {
		chain = append(chain, a.require(r.needs))
	}
	if r.changes() {
		chain = append(chain, a.limitMutations)
	}
	chain = append(chain, a.handle(r.handler))
	router.Handle(r.method, r.path, chain...)
	if r.method == http.MethodGet {
		router.Handle(http.MethodHead, r.path, chain...)
	}
}
