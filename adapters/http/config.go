package httpapi

import (
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"

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

	// Users may call the API. There is no default: without users every route
	// that needs a role is refused.
	Users []User

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

	// Logger gets failures as errors or warnings, and each request at debug.
	//
	// Defaults to none.
	Logger *slog.Logger
}

// User is somebody who may call the API.
type User struct {
	// Username is unique among the users; it holds no colon, since Basic
	// authentication ends the name there.
	Username string
	// Password is not empty.
	Password string
	// Roles are what the user may do; at least one.
	Roles []Role
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
	bad = append(bad, ValidateUsers(c.Users))
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

// ValidateUsers joins all complaints about users; the messages name the user by
// its place in the list and never hold a password.
func ValidateUsers(users []User) error {
	var bad []error
	seen := make(map[string]bool, len(users))
	for i, u := range users {
		complain := func(format string, args ...any) {
			bad = append(bad, fmt.Errorf("users[%d].%s", i, fmt.Sprintf(format, args...)))
		}
		switch {
		case strings.TrimSpace(u.Username) == "":
			complain("username: must not be blank")
		case strings.ContainsRune(u.Username, ':'):
			complain("username: must not contain a colon")
		case seen[u.Username]:
			complain("username: %.80q is listed twice", u.Username)
		}
		seen[u.Username] = true
		if u.Password == "" {
			complain("password: must not be empty")
		}
		if len(u.Roles) == 0 {
			complain("roles: at least one of %s is needed", roleNames())
		}
		for _, r := range u.Roles {
			if _, ok := roleGrants[r]; !ok {
				complain("roles: %.40q is not one of %s", string(r), roleNames())
			}
		}
	}
	return errors.Join(bad...)
}
