package httpapi

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// challenge tells a caller without credentials how to send them.
const challenge = `Basic realm="redis-stream-coordinator"`

// statusGroupAuthorization is the status in the body of a refused heartbeat. It
// is no status of the protocol: it only ever comes with a 403.
const statusGroupAuthorization protocol.Status = "GROUP_AUTHORIZATION_FAILED"

// principal is who makes a request.
type principal struct {
	username string
	roles    []Role
	may      permission
	// until is when the token ends that was presented; zero for a password.
	until time.Time
}

// principalKey is where the middleware leaves the principal of a request.
type principalKey struct{}

// principalOf returns who makes the request, nil on open routes and for callers
// whom nobody knows.
func principalOf(c *gin.Context) *principal {
	v, _ := c.Get(principalKey{})
	p, _ := v.(*principal)
	return p
}

var (
	// errNoCredentials: there is no Authorization header that could be read.
	errNoCredentials = protocol.ErrUnauthorized.With("credentials are missing or cannot be read: send Basic authentication, or a token as Bearer")
	// errWrongPassword does not say which of the two is wrong.
	errWrongPassword = protocol.ErrUnauthorized.With("the user name or the password is wrong")
)

// check returns the user with this name and password, nil if there is none. It
// looks at every user, so that the time it takes does not tell which one exists.
func (a *access) check(username, password string) *principal {
	name, secret := sha256.Sum256([]byte(username)), sha256.Sum256([]byte(password))
	found := -1
	for i := range a.users {
		u := &a.users[i]
		match := subtle.ConstantTimeCompare(name[:], u.name[:]) & subtle.ConstantTimeCompare(secret[:], u.password[:])
		found = subtle.ConstantTimeSelect(match, i, found)
	}
	if found < 0 {
		return nil
	}
	return &a.users[found].principal
}

// identify returns who sent the request by its Authorization header.
// Errors: protocol.ErrUnauthorized, or ErrRateLimit after too many wrong passwords.
func (a *api) identify(r *http.Request, known knowing) (*principal, error) {
	if username, password, ok := r.BasicAuth(); ok {
		return a.byPassword(r, username, password, known)
	}
	scheme, text, found := strings.Cut(r.Header.Get("Authorization"), " ")
	if !found || !strings.EqualFold(scheme, "Bearer") {
		return nil, errNoCredentials
	}
	return a.access.Load().holderOf(strings.TrimSpace(text), time.Now())
}

// byPassword returns the user, unless too many wrong passwords have come.
// Errors: as identify.
func (a *api) byPassword(r *http.Request, username, password string, known knowing) (*principal, error) {
	access := a.access.Load()
	p := access.check(username, password)
	// Asked after the check, and for right ones too: whoever guesses too fast must not
	// learn that a guess was right.
	guess := a.guesses.judge(callerOf(r), username, password, p != nil, known, time.Now())
	switch {
	case guess.wait > 0:
		return nil, later(guess.wait, "too many wrong passwords for this user from this address: wait %d s", seconds(guess.wait))
	case p != nil:
		return p, nil
	}
	if guess.fresh {
		// A name that nobody has may be a password in the wrong field.
		user := ""
		if _, listed := access.byName[username]; listed {
			user = username
		}
		a.log.WarnContext(r.Context(), "a password was refused", "user", user, "client", callerOf(r).String(), "path", cut(r.URL.EscapedPath(), maxAuditPath))
	}
	return nil, errWrongPassword
}

// callerOf returns the address at the other end of the connection, the zero one if it
// is not known. What headers say of it is not asked: callers write them.
func callerOf(r *http.Request) netip.Addr {
	address, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return address.Addr().Unmap()
}

// require refuses a request whose sender has none of the permissions that the
// route asks for.
func (a *api) require(needed permission) gin.HandlerFunc {
	return func(c *gin.Context) {
		p, err := a.identify(c.Request, provenCallers)
		if err != nil {
			a.refuse(c, err)
			return
		}
		c.Set(principalKey{}, p)
		if p.may&needed == 0 {
			a.forbid(c, protocol.ErrForbidden.With("user %q lacks the role %s", p.username, needed))
		}
	}
}

// forbid answers 403. A heartbeat gets the shape that members read as well.
func (a *api) forbid(c *gin.Context, e *protocol.Error) {
	if c.FullPath() != a.heartbeatPath {
		a.refuse(c, e)
		return
	}
	c.Set(refusalKey{}, e.Code)
	member, _ := pathName(c, "memberId")
	response := protocol.NewHeartbeatResponse(&protocol.Heartbeat{MemberID: member}, statusGroupAuthorization, e.Message, a.config.Timings)
	a.send(c, reply{status: http.StatusForbidden, body: struct {
		protocol.HeartbeatResponse
		ErrorCode string `json:"errorCode"`
		Message   string `json:"message"`
	}{response, e.Code, e.Message}})
}
