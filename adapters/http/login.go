package httpapi

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

const (
	loginRoute = "/auth/login"
	// maxLoginBytes bounds the body of a login.
	maxLoginBytes = 8 << 10
)

// credentials are the body of a login. Without a user name the Authorization header
// counts instead.
type credentials struct {
	Username string `json:"username"`
	Password string `json:"password"`
}

// loggedIn answers a login.
type loggedIn struct {
	AccessToken string    `json:"accessToken"`
	TokenType   string    `json:"tokenType"`
	ExpiresAt   time.Time `json:"expiresAt"`
	// ExpiresInSeconds is how long the token serves at least.
	ExpiresInSeconds int64  `json:"expiresInSeconds"`
	Roles            []Role `json:"roles"`
}

// logIn issues a token.
func (a *api) logIn(c *gin.Context) (reply, error) {
	var q credentials
	if err := readBody(c, maxLoginBytes, q.decode); err != nil {
		return reply{}, err
	}
	var p *principal
	var err error
	if strings.TrimSpace(q.Username) != "" {
		// A valid header does not make a wrong body right.
		p, err = a.byPassword(c.Request, q.Username, q.Password, nobody)
	} else {
		p, err = a.identify(c.Request, nobody)
	}
	if err != nil {
		return reply{}, err
	}
	now := time.Now()
	text, expires := a.access.Load().issue(p, now)
	return ok(loggedIn{
		AccessToken:      text,
		TokenType:        "Bearer",
		ExpiresAt:        expires,
		ExpiresInSeconds: int64(expires.Sub(now) / time.Second),
		Roles:            p.roles,
	}), nil
}

// decode reads a body that may be empty. Its errors show nothing of the body.
func (q *credentials) decode(body []byte) error {
	if len(bytes.TrimSpace(body)) == 0 {
		return nil
	}
	if err := json.Unmarshal(body, q); err != nil {
		return protocol.ErrInvalidRequest.With(`body: must be JSON such as {"username":"…","password":"…"}`)
	}
	return nil
}
