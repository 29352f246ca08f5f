package producer

import (
	"context"
	"encoding/base64"
)

// Credentials tell a coordinator who asks. They are asked before each request,
// so an implementation may renew what it hands out. They must be safe for use by
// several goroutines.
type Credentials interface {
	// Authorization returns the value of the Authorization header, empty for
	// none. An error keeps the request from being sent and counts as a
	// coordinator that cannot be reached.
	Authorization(ctx context.Context) (string, error)
}

// BasicAuth returns credentials of a user with a password that does not change.
func BasicAuth(username, password string) Credentials {
	return basicAuth{username, password}
}

type basicAuth struct{ username, password string }

func (a basicAuth) Authorization(context.Context) (string, error) {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(a.username+":"+a.password)), nil
}

// String keeps the password out of logs.
func (a basicAuth) String() string { return "Basic " + a.username + ":***" }

// GoString keeps the password out of logs too.
func (a basicAuth) GoString() string { return a.String() }

// CredentialsFunc makes a function into Credentials, for a token that is fetched
// or renewed:
//
//	producer.CredentialsFunc(func(ctx context.Context) (string, error) {
//		token, err := tokens.Current(ctx)
//		return "Bearer " + token, err
//	})
type CredentialsFunc func(ctx context.Context) (string, error)

// Authorization calls f.
func (f CredentialsFunc) Authorization(ctx context.Context) (string, error) { return f(ctx) }
