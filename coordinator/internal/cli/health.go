package cli

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// The paths that anybody may ask, and how much of an answer is read.
const (
	readyPath       = "/health/ready"
	livePath        = "/health/live"
	maxHealthAnswer = 64 << 10
)

// healthFlags is what `rsc health` is told.
type healthFlags struct {
	coordinator string
	timeout     time.Duration
	live        bool
}

func newHealth(a App) *cobra.Command {
	var flags healthFlags
	c := &cobra.Command{
		Use:   "health",
		Short: "Ask a coordinator whether it is well",
		Long: "Asks one coordinator whether it can coordinate and prints its answer. Exit code 0:\n" +
			"it can; 1: it cannot, or does not answer. It needs no user. With --live it only asks\n" +
			"whether the process serves requests: what restarts a container should ask that,\n" +
			"since a restart brings no store back.\n\n" +
			"On a loopback address the certificate of an HTTPS server is not compared with that\n" +
			"address.",
		Example: "  rsc health\n  rsc health --coordinator http://10.0.0.7:8080 --live",
		Args:    noArguments,
		RunE:    func(c *cobra.Command, _ []string) error { return a.runHealth(c.Context(), &flags) },
	}
	// Of several coordinators the first: each is asked about itself.
	first, _, _ := strings.Cut(a.getenv("RSC_COORDINATOR", defaultCoordinator), ",")
	c.Flags().StringVar(&flags.coordinator, "coordinator", first, "`URL` of the coordinator, also RSC_COORDINATOR")
	c.Flags().DurationVar(&flags.timeout, "timeout", 3*time.Second, "how long the answer may take")
	c.Flags().BoolVar(&flags.live, "live", false, "ask only whether the process serves requests")
	return c
}

// healthAnswer is what a coordinator says to anybody.
type healthAnswer struct {
	Status protocol.HealthStatus `json:"status"`
	Store  string                `json:"store"`
	Redis  string                `json:"redis"`
	Loop   string                `json:"loop"`
}

// String is the line that `rsc health` prints.
func (h healthAnswer) String() string {
	var b strings.Builder
	b.WriteString(string(h.Status))
	for _, part := range []struct{ name, state string }{{"store", h.Store}, {"redis", h.Redis}, {"loop", h.Loop}} {
		if part.state != "" {
			fmt.Fprintf(&b, " %s=%s", part.name, part.state)
		}
	}
	return b.String()
}

func (a App) runHealth(ctx context.Context, flags *healthFlags) error {
	at, err := url.Parse(flags.coordinator)
	if err != nil || at.Scheme != "http" && at.Scheme != "https" || at.Host == "" {
		return usagef("--coordinator must be a URL such as %s, got %q", defaultCoordinator, flags.coordinator)
	}
	if flags.timeout <= 0 {
		return usagef("--timeout must be longer than nothing, got %s", flags.timeout)
	}
	ctx, done := context.WithTimeoutCause(ctx, flags.timeout, fmt.Errorf("no answer within %s", flags.timeout))
	defer done()
	path := readyPath
	if flags.live {
		path = livePath
	}
	answer, ok, err := askHealth(ctx, at, path)
	if err != nil {
		return fmt.Errorf("ask %s://%s: %w", at.Scheme, at.Host, err)
	}
	fmt.Fprintln(a.Stdout, answer)
	if !ok {
		return errTold
	}
	return nil
}

// askHealth asks one of the paths; ok says that the answer was 200.
func askHealth(ctx context.Context, at *url.URL, path string) (answer healthAnswer, ok bool, err error) {
	transport := &http.Transport{DisableKeepAlives: true, TLSClientConfig: healthTLS(at)}
	client := &http.Client{Transport: transport}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at.JoinPath(path).String(), http.NoBody)
	if err != nil {
		return answer, false, err
	}
	response, err := client.Do(request)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return answer, false, cause
		}
		var inner *url.Error // it repeats the method and the URL
		if errors.As(err, &inner) {
			err = inner.Err
		}
		return answer, false, err
	}
	defer func() { _ = response.Body.Close() }() // it was only read
	body, err := io.ReadAll(io.LimitReader(response.Body, maxHealthAnswer))
	if err != nil {
		return answer, false, err
	}
	if err := json.Unmarshal(body, &answer); err != nil || answer.Status == "" {
		return answer, false, fmt.Errorf("it answers %s to GET %s, and not as a coordinator does", response.Status, path)
	}
	return answer, response.StatusCode == http.StatusOK, nil
}

// healthTLS trusts whoever listens on this very machine: a server's certificate
// names it as others see it, and the question holds no secret.
func healthTLS(at *url.URL) *tls.Config {
	host := at.Hostname()
	ip := net.ParseIP(host)
	local := host == "localhost" || ip != nil && ip.IsLoopback()
	//nolint:gosec // only on a loopback address
	return &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: local}
}
