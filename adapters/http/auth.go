package httpapi

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"slices"

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
}

// principalKey is where the middleware leaves the principal of a request.
type principalKey struct{}

// principalOf returns who makes the request, nil on open routes.
func principalOf(c *gin.Context) *principal {
	v, _ := c.Get(principalKey{})
	p, _ := v.(*principal)
	return p
}

// authenticator knows the users. Passwords are kept and compared as digests:
// comparing digests of one length takes the same time whatever was sent.
type authenticator struct {
	users []knownUser
}

type knownUser struct {
	principal
	name, password [sha256.Size]byte
}

func newAuthenticator(users []User) *authenticator {
	a := &authenticator{users: make([]knownUser, len(users))}
	for i, u := range users {
		k := knownUser{
			principal: principal{username: u.Username, roles: slices.Compact(slices.Sorted(slices.Values(u.Roles)))},
			name:      sha256.Sum256([]byte(u.Username)),
			password:  sha256.Sum256([]byte(u.Password)),
		}
		for _, r := range u.Roles {
			k.may |= roleGrants[r]
		}
		a.users[i] = k
	}
	return a
}

// authenticate returns who sent the request, nil without valid credentials. It
// looks at every user, so that the time it takes does not tell which one
// exists.
func (a *authenticator) authenticate(r *http.Request) *principal {
	username, password, ok := r.BasicAuth()
	if !ok {
		return nil
	}
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

// require refuses a request whose sender has none of the permissions that the
// route asks for.
func (a *api) require(needed permission) gin.HandlerFunc {
	return func(c *gin.Context) {
		p := a.auth.authenticate(c.Request)
		if p == nil {
			c.Header("WWW-Authenticate", challenge)
			a.refuse(c, protocol.ErrUnauthorized.With("credentials are missing or wrong: send Basic authentication of a user with the role %s", needed))
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
	member, _ := pathName(c, "memberId")
	response := protocol.NewHeartbeatResponse(&protocol.Heartbeat{MemberID: member}, statusGroupAuthorization, e.Message, a.config.Timings)
	a.send(c, reply{status: http.StatusForbidden, body: struct {
		protocol.HeartbeatResponse
		ErrorCode string `json:"errorCode"`
		Message   string `json:"message"`
	}{response, e.Code, e.Message}})
}
