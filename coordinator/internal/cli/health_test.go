package cli

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

func TestHealthOfARealCoordinator(t *testing.T) {
	w := startWorld(t, "")
	for args, want := range map[string]string{"": "UP store=UP redis=NOT_CONFIGURED loop=UP\n", "--live": "UP\n"} {
		var c *command
		eventually(t, "the coordinator is well", func() bool {
			c = start(t, w.environ, nil, append([]string{"health", "--timeout", "1m"}, strings.Fields(args)...)...)
			return c.wait(t) == 0
		})
		if c.out.String() != want {
			t.Errorf("health %s: %q, want %q; %s", args, c.out.String(), want, c.err.String())
		}
	}
}

func TestHealthSaysWhatIsWrong(t *testing.T) {
	answers := map[string]struct {
		status int
		body   string
	}{
		"/down/health/ready":  {503, `{"status":"DOWN","store":"DOWN","redis":"UP","loop":"UP"}`},
		"/other/health/ready": {200, `<html>hello</html>`},
		"/empty/health/ready": {200, `{}`},
	}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow/health/ready" {
			<-r.Context().Done()
			return
		}
		a := answers[r.URL.Path]
		w.WriteHeader(a.status)
		fmt.Fprint(w, a.body)
	})
	plain, secure := httptest.NewServer(handler), httptest.NewTLSServer(handler)
	t.Cleanup(plain.Close)
	t.Cleanup(secure.Close)

	cases := []struct {
		name, url string
		args      []string
		code      int
		out, err  string
	}{
		{"down", plain.URL + "/down", nil, exitFailure, "DOWN store=DOWN redis=UP loop=UP\n", ""},
		{"down, by TLS with another's certificate", secure.URL + "/down", nil, exitFailure, "DOWN store=DOWN redis=UP loop=UP\n", ""},
		{"another server", plain.URL + "/other", nil, exitFailure, "", "it answers 200 OK to GET /health/ready, and not as a coordinator does"},
		{"an empty answer", plain.URL + "/empty", nil, exitFailure, "", "not as a coordinator does"},
		{"no server", "http://127.0.0.1:1", nil, exitFailure, "", "connection refused"},
		{"no answer", plain.URL + "/slow", []string{"--timeout", "50ms"}, exitFailure, "", "no answer within 50ms"},
		{"no URL", "localhost:8080", nil, exitUsage, "", "--coordinator must be a URL"},
		{"no time", plain.URL, []string{"--timeout", "0s"}, exitUsage, "", "--timeout must be longer than nothing"},
	}
	for _, tt := range cases {
		t.Run(tt.name, func(t *testing.T) {
			c := start(t, []string{"RSC_COORDINATOR=" + tt.url + ",http://192.0.2.1:1"}, nil, append([]string{"health", "--timeout", "1m"}, tt.args...)...)
			if code := c.wait(t); code != tt.code {
				t.Errorf("exit code %d, want %d", code, tt.code)
			}
			if c.out.String() != tt.out || !strings.Contains(c.err.String(), tt.err) {
				t.Errorf("stdout %q, want %q; stderr %q, want %q in it", c.out.String(), tt.out, c.err.String(), tt.err)
			}
		})
	}
}

// A certificate is looked at wherever the server is not this machine itself.
func TestHealthTrustsThisMachineOnly(t *testing.T) {
	for host, trusted := range map[string]bool{
		"127.0.0.1:8443": true, "localhost": true, "[::1]:8443": true,
		"10.0.0.7:8443": false, "coordinator.example": false, "localhost.example": false,
	} {
		at, err := url.Parse("https://" + host)
		if err != nil {
			t.Fatal(err)
		}
		if got := healthTLS(at).InsecureSkipVerify; got != trusted {
			t.Errorf("%s: trusted %v, want %v", host, got, trusted)
		}
	}
}
