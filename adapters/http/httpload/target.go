package httpload

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	httpapi "github.com/redis-stream-coordinator/rsc/adapters/http"
)

// dialTimeout bounds the making of a connection.
const dialTimeout = 5 * time.Second

// Target is a coordinator and how to reach it.
type Target struct {
	tls *tls.Config // nil for plain connections
	// address is host:port, host what the Host header says, base the path that
	// all routes stand under.
	address, host, base string
	authorization       string // empty without credentials
}

// NewTarget reads the URL of a coordinator, such as http://127.0.0.1:8080; a path in
// it takes the place of the default base path. Credentials are sent if username is
// not empty.
// Errors: what is wrong with the URL.
func NewTarget(base, username, password string) (*Target, error) {
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("the coordinator's URL must be of the form http://host:port or https://host:port")
	}
	t := &Target{host: u.Host, base: strings.TrimRight(u.EscapedPath(), "/")}
	if t.base == "" {
		t.base = httpapi.DefaultBasePath
	}
	port := u.Port()
	if u.Scheme == "https" {
		t.tls = &tls.Config{MinVersion: tls.VersionTLS12, ServerName: u.Hostname()}
		port = cmpOr(port, "443")
	}
	t.address = net.JoinHostPort(u.Hostname(), cmpOr(port, "80"))
	if username != "" {
		t.authorization = "Basic " + base64.StdEncoding.EncodeToString([]byte(username+":"+password))
	}
	return t, nil
}

func cmpOr(s, fallback string) string {
	if s == "" {
		return fallback
	}
	return s
}

// dial makes a connection.
func (t *Target) dial(ctx context.Context) (net.Conn, error) {
	d := net.Dialer{Timeout: dialTimeout}
	c, err := d.DialContext(ctx, "tcp", t.address)
	if err != nil {
		return nil, fmt.Errorf("reach the coordinator: %w", err)
	}
	if t.tls == nil {
		return c, nil
	}
	secure := tls.Client(c, t.tls)
	if err := secure.HandshakeContext(ctx); err != nil {
		return nil, fmt.Errorf("reach the coordinator: %w", errors.Join(err, c.Close()))
	}
	return secure, nil
}

// HeartbeatRequest returns the bytes of a request with this body, which is a
// heartbeat in JSON.
func (t *Target) HeartbeatRequest(stream, group, member string, body []byte) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "POST %s/streams/%s/groups/%s/members/%s/heartbeat HTTP/1.1\r\nHost: %s\r\n",
		t.base, url.PathEscape(stream), url.PathEscape(group), url.PathEscape(member), t.host)
	if t.authorization != "" {
		fmt.Fprintf(&b, "Authorization: %s\r\n", t.authorization)
	}
	fmt.Fprintf(&b, "Content-Type: application/json\r\nContent-Length: %d\r\n\r\n", len(body))
	b.Write(body)
	return b.Bytes()
}
