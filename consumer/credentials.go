package consumer

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
)

// Credentials tell a coordinator who asks. They are asked before each request,
// so an implementation may renew what it hands out. They must be safe for use by
// several goroutines. (A value that serves the producer module serves here.)
type Credentials interface {
	// Authorization returns the value of the Authorization header, empty for
	// none. An error keeps the heartbeat from being sent; it is tried again.
	Authorization(ctx context.Context) (string, error)
}

// Renewable is what Credentials may be besides: they are told of a refusal, so
// that they get others. See Login.
type Renewable interface {
	Credentials
	// Refused says that a coordinator answered 401 to a request with this value.
	// Authorization is asked again at once, and the request made once more.
	Refused(authorization string)
}

// BasicAuth returns credentials of a user with a password that does not change.
func BasicAuth(username, password string) Credentials { return basicAuth{username, password} }

type basicAuth struct{ username, password string }

func (a basicAuth) Authorization(context.Context) (string, error) {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(a.username+":"+a.password)), nil
}

// String and GoString keep the password out of logs.
func (a basicAuth) String() string   { return "Basic " + a.username + ":***" }
func (a basicAuth) GoString() string { return a.String() }

// sendAuthorized makes a request with credentials c, which may be nil. One that is answered
// 401 was not carried out, so it is made once more if c has something else to
// present then.
func sendAuthorized(client *http.Client, c Credentials, req *http.Request) (*http.Response, error) {
	if c == nil {
		return client.Do(req)
	}
	authorization, err := authorize(c, req)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	renewable, ok := c.(Renewable)
	if err != nil || resp.StatusCode != http.StatusUnauthorized || !ok {
		return resp, err
	}
	renewable.Refused(authorization)
	again := req.Clone(req.Context())
	if req.GetBody != nil {
		if again.Body, err = req.GetBody(); err != nil {
			return resp, nil //nolint:nilerr // what was answered tells more
		}
	}
	renewed, err := authorize(c, again)
	if err == nil && renewed == authorization {
		return resp, nil
	}
	_ = resp.Body.Close()
	if err != nil {
		return nil, err
	}
	return client.Do(again)
}

// authorize puts into req what c presents, and returns it.
func authorize(c Credentials, req *http.Request) (string, error) {
	authorization, err := c.Authorization(req.Context())
	if err != nil {
		return "", fmt.Errorf("credentials for the coordinator: %w", err)
	}
	if authorization == "" {
		req.Header.Del("Authorization")
	} else {
		req.Header.Set("Authorization", authorization)
	}
	return authorization, nil
}

// CredentialsFunc makes a function into Credentials, for a token that is fetched
// or renewed.
type CredentialsFunc func(ctx context.Context) (string, error)

// Authorization calls f.
func (f CredentialsFunc) Authorization(ctx context.Context) (string, error) { return f(ctx) }
