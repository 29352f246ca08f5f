package cli

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/redis-stream-coordinator/rsc/coordinator/internal/config"
)

// Where the tools look when they are told nothing: at what `rsc server` and
// redis-server do by default.
const (
	defaultCoordinator = "http://127.0.0.1:8080"
	defaultRedis       = "redis://127.0.0.1:6379"
	defaultUser        = "admin"
)

// connection says how a tool reaches coordinator and Redis.
type connection struct {
	stream       string
	coordinators []string
	redisAt      redisAt
	username     string
	password     config.Secret
	logLevel     string
}

// flags adds the flags of a connection to a command. The password has none: it
// would be seen in the list of processes.
func (n *connection) flags(a App, c *cobra.Command, logLevel string) {
	n.password = config.Secret(a.getenv("RSC_PASSWORD", config.DefaultPassword))
	f := c.Flags()
	f.StringVar(&n.stream, "stream", "", "prefix of the stream's keys, such as orders (needed)")
	f.StringSliceVar(&n.coordinators, "coordinator", strings.Split(a.getenv("RSC_COORDINATOR", defaultCoordinator), ","), "`URL` of a coordinator, also RSC_COORDINATOR; may be repeated")
	n.redisAt.flags(f)
	f.StringVar(&n.username, "username", a.getenv("RSC_USERNAME", defaultUser), "user for the coordinator, also RSC_USERNAME; the password is RSC_PASSWORD")
	f.StringVar(&n.logLevel, "log-level", logLevel, "debug, info, warn or error")
}

// check completes the connection and returns all complaints about it.
func (n *connection) check(a App) error {
	var bad []error
	if n.stream == "" {
		bad = append(bad, errors.New("--stream is needed: the prefix of the stream's keys, such as --stream orders for orders:0, orders:1, …"))
	}
	for _, c := range n.coordinators {
		if u, err := url.Parse(c); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			bad = append(bad, fmt.Errorf("--coordinator must be a URL such as %s, got %q", defaultCoordinator, c))
		}
	}
	if !slices.Contains([]string{"debug", "info", "warn", "error"}, n.logLevel) {
		bad = append(bad, fmt.Errorf("--log-level must be debug, info, warn or error, got %q", n.logLevel))
	}
	bad = append(bad, n.redisAt.resolve(a.getenv("REDIS_URL", defaultRedis)))
	return asUsage(bad)
}

// asUsage makes complaints about a command line one error, nil when there are
// none.
func asUsage(bad []error) error {
	if err := errors.Join(bad...); err != nil {
		return &usageError{err: err}
	}
	return nil
}
