package httpapi

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"strings"

	"github.com/redis-stream-coordinator/rsc/core/port"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// DefaultBasePath is the path that the API's routes stand under.
const DefaultBasePath = "/coord/v1"

// Config says how the API is served.
type Config struct {
	// BasePath is the path that the API's routes stand under: it begins with a
	// slash and ends without one, "/" alone means the root.
	//
	// Defaults to DefaultBasePath.
	BasePath string

	// Access says who may call the API and how often. It can be replaced later.
	Access Access

	// AuthenticateMembers asks members for credentials with the role MEMBER.
	//
	// Defaults to false: heartbeats are open, and their Authorization header is
	// not looked at.
	AuthenticateMembers bool

	// Timings are shown as the defaults in the compatibility document, and stand
	// in answers to heartbeats that never reach the coordinator.
	//
	// Defaults to protocol.DefaultTimings.
	Timings protocol.Timings

	// Audit keeps a record of each attempt to change something.
	//
	// Defaults to LogAudit of Logger.
	Audit port.Audit

	// CoordinatorID names the coordinator in the audit.
	CoordinatorID string

	// Observe, if set, is told of each request under the base path once it was answered.
	// It is called from many goroutines and must be quick.
	Observe func(Served)

	// Trace, if set, begins a span for each of them.
	Trace Trace

	// Metrics, if set, answers scrapes at /metrics and /actuator/prometheus.
	Metrics http.Handler

	// AuthenticateMetrics asks scrapers for credentials with the role READ.
	//
	// Defaults to false: the metrics are open.
	AuthenticateMetrics bool

	// Logger gets failures as errors or warnings, and each request at debug.
	//
	// Defaults to none.
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	if c.BasePath == "" {
		c.BasePath = DefaultBasePath
	}
	c.BasePath = strings.TrimSuffix(c.BasePath, "/")
	if c.Timings == (protocol.Timings{}) {
		c.Timings = protocol.DefaultTimings()
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Audit == nil {
		c.Audit = LogAudit(c.Logger)
	}
	return c
}

// basePath is what a base path looks like: plain segments, so that none can be
// taken for a parameter of the router.
var basePath = regexp.MustCompile(`^(/[A-Za-z0-9._~-]+)*$`)

// validate joins all complaints about a Config that has its defaults.
func (c Config) validate() error {
	var bad []error
	if err := ValidateBasePath(c.BasePath); err != nil {
		bad = append(bad, fmt.Errorf("base path: %w", err))
	}
	bad = append(bad, c.Access.Validate())
	if err := c.Timings.Validate(); err != nil {
		bad = append(bad, err)
	}
	return errors.Join(bad...)
}

// ValidateBasePath refuses a base path that is not made of plain segments; one
// slash at its end is allowed.
func ValidateBasePath(path string) error {
	if path != "" && !basePath.MatchString(strings.TrimSuffix(path, "/")) {
		return fmt.Errorf("is %.80q, must be like %s", path, DefaultBasePath)
	}
	return nil
}
