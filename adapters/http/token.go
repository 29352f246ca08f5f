package httpapi

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

const (
	// tokenVersion begins a token's content.
	tokenVersion = "v1"
	// tokenLines is how many lines a token's content has: version, user name, expiry
	// in seconds since 1970, roles.
	tokenLines = 4
	// maxTokenBytes bounds what is looked at as a token.
	maxTokenBytes = 4 << 10
	// maxUsernameBytes bounds a user name, so that every user can have a token.
	maxUsernameBytes = 200
)

// Why a token is not accepted.
var (
	errBadToken     = protocol.ErrUnauthorized.With("the token is not one of this coordinator, or its secret was changed: log in again")
	errExpiredToken = protocol.ErrUnauthorized.With("the token has expired: log in again")
	errRevokedToken = protocol.ErrUnauthorized.With("the user of the token, or every role in it, is gone: log in as another user")
)

// token is what a token says.
type token struct {
	username string
	roles    []Role
	// expires is a whole second.
	expires time.Time
}

var tokenText = base64.RawURLEncoding.Strict()

// sign writes a token: its content and the code that proves who wrote it, each in
// base64, with a dot between them.
func (t token) sign(key []byte) string {
	roles := make([]string, len(t.roles))
	for i, r := range t.roles {
		roles[i] = string(r)
	}
	slices.Sort(roles)
	content := strings.Join([]string{tokenVersion, t.username, strconv.FormatInt(t.expires.Unix(), 10), strings.Join(roles, ",")}, "\n")
	signed := tokenText.EncodeToString([]byte(content))
	return signed + "." + tokenText.EncodeToString(tokenCode(key, signed))
}

func tokenCode(key []byte, signed string) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(signed))
	return mac.Sum(nil)
}

// readToken reads a token that one of the keys has signed and that has not expired.
// Roles that are not known are left out.
// Errors: errBadToken, errExpiredToken.
func readToken(text string, keys [][]byte, now time.Time) (token, error) {
	signed, code, found := strings.Cut(text, ".")
	if !found || len(text) > maxTokenBytes {
		return token{}, errBadToken
	}
	given, err := tokenText.DecodeString(code)
	if err != nil {
		return token{}, errBadToken
	}
	genuine := false
	for _, key := range keys {
		// Every key is tried, so that the time does not tell which one it was.
		if hmac.Equal(given, tokenCode(key, signed)) {
			genuine = true
		}
	}
	if !genuine {
		return token{}, errBadToken
	}
	content, err := tokenText.DecodeString(signed)
	if err != nil {
		return token{}, errBadToken
	}
	lines := strings.Split(string(content), "\n")
	if len(lines) != tokenLines || lines[0] != tokenVersion {
		return token{}, errBadToken
	}
	seconds, err := strconv.ParseInt(lines[2], 10, 64)
	if err != nil {
		return token{}, errBadToken
	}
	t := token{username: lines[1], expires: time.Unix(seconds, 0)}
	if !now.Before(t.expires) {
		return token{}, errExpiredToken
	}
	for name := range strings.SplitSeq(lines[3], ",") {
		if _, known := roleGrants[Role(name)]; known {
			t.roles = append(t.roles, Role(name))
		}
	}
	return t, nil
}

// holderOf returns who presents a token. The user must still be listed, and the roles
// are those of the token that the user still has.
// Errors: those of readToken, errRevokedToken.
func (a *access) holderOf(text string, now time.Time) (*principal, error) {
	t, err := readToken(text, a.keys, now)
	if err != nil {
		return nil, err
	}
	user, listed := a.byName[t.username]
	if !listed {
		return nil, errRevokedToken
	}
	roles := slices.DeleteFunc(t.roles, func(r Role) bool { return roleGrants[r]&^user.may != 0 })
	if len(roles) == 0 {
		return nil, errRevokedToken
	}
	return &principal{username: t.username, roles: roles, may: permissionOf(roles), until: t.expires}, nil
}

// issue makes a token for p. One for somebody who presents a token ends when that
// one does: whoever got hold of a token does not keep it for ever.
func (a *access) issue(p *principal, now time.Time) (text string, expires time.Time) {
	// Rounded up, so that it serves at least as long as is said.
	expires = time.Unix(now.Add(a.ttl+time.Second-1).Unix(), 0).UTC()
	if !p.until.IsZero() && expires.After(p.until) {
		expires = p.until.UTC()
	}
	return token{username: p.username, roles: p.roles, expires: expires}.sign(a.keys[0]), expires
}
