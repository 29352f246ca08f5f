package httpapi

import (
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"
	"unicode"
)

const (
	// DefaultTokenTTL is how long a token serves.
	DefaultTokenTTL = 7 * 24 * time.Hour
	// MinTokenTTL is the shortest that it may be.
	MinTokenTTL = time.Second
	// MaxTokenTTL is the longest.
	MaxTokenTTL = 365 * 24 * time.Hour
	// MaxUsers bounds the users.
	MaxUsers = 1000
)

// Access says who may call the API and how often. API.SetAccess replaces it while
// the API serves.
type Access struct {
	// Users may call the API. There is no default: without users every route
	// that needs a role is refused.
	Users []User
	// Tokens are what a login issues.
	Tokens Tokens
	// RateLimit bounds how often something may be changed.
	RateLimit RateLimit
}

// User is somebody who may call the API. Printing one shows no password.
type User struct {
	// Username is unique among the users; it holds no colon, since Basic
	// authentication ends the name there.
	Username string
	// Password is not empty.
	Password string
	// Roles are what the user may do; at least one.
	Roles []Role
}

// Tokens says how tokens are signed and how long they serve. Printing it shows no
// secret.
//
// A token is the user's name and roles with a time of expiry and a signature. It ends
// before that time if the user is no longer listed, and gives no role that the user
// has no more; a changed password does not end it, a changed secret does.
type Tokens struct {
	// Secret signs tokens. All coordinators that callers may meet need the same one.
	//
	// Defaults to a random one: tokens are then good at this process only.
	Secret string
	// PreviousSecret signed tokens that are still accepted, while Secret is being
	// replaced. Empty for none.
	PreviousSecret string
	// TTL is how long a token serves, MinTokenTTL to MaxTokenTTL.
	//
	// Defaults to DefaultTokenTTL.
	TTL time.Duration
}

// RateLimit bounds the attempts of one user to change one group, or one stream
// itself.
type RateLimit struct {
	// Enabled switches it on.
	Enabled bool
	// MutationsPerMinute are the attempts in a minute; with 0 nothing can be changed.
	MutationsPerMinute int
}

// Format prints the user without the password.
func (u User) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "%s:*** %s", u.Username, u.Roles) }

// LogValue logs the user without the password.
func (u User) LogValue() slog.Value { return slog.StringValue(fmt.Sprint(u)) }

// Format prints no secret.
func (t Tokens) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "tokens for %s", t.TTL) }

// LogValue logs no secret.
func (t Tokens) LogValue() slog.Value { return slog.StringValue(fmt.Sprint(t)) }

// Validate joins all complaints; the messages never hold a password or a secret.
func (a Access) Validate() error {
	bad := []error{ValidateUsers(a.Users)}
	if ttl := a.Tokens.TTL; ttl != 0 && (ttl < MinTokenTTL || ttl > MaxTokenTTL) {
		bad = append(bad, fmt.Errorf("tokens: TTL is %s, must be between %s and %s", ttl, MinTokenTTL, MaxTokenTTL))
	}
	if n := a.RateLimit.MutationsPerMinute; n < 0 {
		bad = append(bad, fmt.Errorf("rate limit: MutationsPerMinute is %d, must not be negative", n))
	}
	return errors.Join(bad...)
}

// ValidateUsers joins all complaints about users; the messages name the user by
// its place in the list and never hold a password.
func ValidateUsers(users []User) error {
	if len(users) > MaxUsers {
		return fmt.Errorf("users: has %d entries, at most %d are allowed", len(users), MaxUsers)
	}
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
		case strings.ContainsFunc(u.Username, unicode.IsControl):
			complain("username: must not contain control characters")
		case len(u.Username) > maxUsernameBytes:
			complain("username: is %d bytes long, at most %d are allowed", len(u.Username), maxUsernameBytes)
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

// access is Access in the form that requests are judged by. It is never changed.
type access struct {
	users  []knownUser
	byName map[string]*knownUser
	// keys are what tokens are signed with: the first signs, all of them count.
	keys  [][]byte
	ttl   time.Duration
	limit RateLimit
}

// knownUser is a user. Names and passwords are kept and compared as digests:
// comparing digests of one length takes the same time whatever was sent.
type knownUser struct {
	principal
	name, password [sha256.Size]byte
}

// compile makes an access of a valid Access; own signs tokens where no secret is
// given.
func (a Access) compile(own string) *access {
	c := &access{
		users:  make([]knownUser, len(a.Users)),
		byName: make(map[string]*knownUser, len(a.Users)),
		ttl:    a.Tokens.TTL,
		limit:  a.RateLimit,
	}
	if c.ttl == 0 {
		c.ttl = DefaultTokenTTL
	}
	secret := a.Tokens.Secret
	if secret == "" {
		secret = own
	}
	c.keys = append(c.keys, []byte(secret))
	if a.Tokens.PreviousSecret != "" {
		c.keys = append(c.keys, []byte(a.Tokens.PreviousSecret))
	}
	for i, u := range a.Users {
		c.users[i] = knownUser{
			principal: principal{
				username: u.Username,
				roles:    slices.Compact(slices.Sorted(slices.Values(u.Roles))),
				may:      permissionOf(u.Roles),
			},
			name:     sha256.Sum256([]byte(u.Username)),
			password: sha256.Sum256([]byte(u.Password)),
		}
		c.byName[u.Username] = &c.users[i]
	}
	return c
}

// permissionOf is what roles give together.
func permissionOf(roles []Role) permission {
	var may permission
	for _, r := range roles {
		may |= roleGrants[r]
	}
	return may
}

// randomSecret signs tokens that no other process has to know.
func randomSecret() string { return rand.Text() + rand.Text() }
