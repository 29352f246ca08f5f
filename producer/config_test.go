package producer

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

func TestConfigDefaults(t *testing.T) {
	got := Config{Stream: "orders"}.withDefaults()
	if got.Group != "orders" || got.MaxMessageBytes != 1<<20 || got.PipelineMessages != 500 || got.PipelineBytes != 1<<20 ||
		got.MaxBufferedMessages != 10_000 || got.MaxBufferedBytes != 64<<20 || got.WhenFull != RefuseWhenFull ||
		got.RetryFor != 5*time.Second || got.Logger == nil {
		t.Errorf("defaults are %+v", got)
	}
	if got := (Config{RetryFor: -1}).withDefaults(); got.RetryFor != 0 {
		t.Errorf("a negative RetryFor becomes %s", got.RetryFor)
	}
}

func TestConfigComplaints(t *testing.T) {
	good := func() Config {
		return Config{Stream: "orders", Coordinators: []string{"http://127.0.0.1:1"}}
	}
	tests := []struct {
		name   string
		change func(*Config)
		words  []string
	}{
		{"no stream", func(c *Config) { c.Stream = "" }, []string{"Stream: must not be blank"}},
		{"braces", func(c *Config) { c.Stream = "{orders}" }, []string{"Stream: must not contain {"}},
		{"group", func(c *Config) { c.Group = "a/b" }, []string{"Group: must not contain /"}},
		{"nobody to ask", func(c *Config) { c.Coordinators = nil }, []string{"Coordinators: is empty"}},
		{"two to ask", func(c *Config) { c.Transport = transportFunc(nil) }, []string{"Transport is set too"}},
		{"too many to ask", func(c *Config) { c.Coordinators = make([]string, 65) }, []string{"65 entries, at most 64"}},
		{"no scheme", func(c *Config) { c.Coordinators = []string{"http://ok", "localhost:8080"} }, []string{"Coordinators[1]: must be of the form"}},
		{"user in URL", func(c *Config) { c.Coordinators = []string{"http://a:b@host"} }, []string{"use Credentials"}},
		{"query", func(c *Config) { c.Coordinators = []string{"http://host?a=b"} }, []string{"query"}},
		{"sizes", func(c *Config) { c.MaxMessageBytes, c.PipelineMessages, c.PipelineBytes = -1, 10_001, 1<<26+1 },
			[]string{"MaxMessageBytes: is -1, must be between 1 and 67108864", "PipelineMessages: is 10001", "PipelineBytes: is 67108865"}},
		{"buffer", func(c *Config) { c.MaxBufferedMessages, c.MaxBufferedBytes = -1, 1<<20-1 },
			[]string{"MaxBufferedMessages: is -1", "MaxBufferedBytes: is 1048575, must be at least MaxMessageBytes, which is 1048576"}},
		{"linger", func(c *Config) { c.Linger = time.Minute }, []string{"Linger: is 1m0s, must be between 0 and 1s"}},
		{"length", func(c *Config) { c.MaxStreamLength = -1 }, []string{"MaxStreamLength: is -1"}},
		{"policy", func(c *Config) { c.WhenFull = "drip" }, []string{`WhenFull: is "drip", must be "refuse", "drop" or "drop-exactly"`}},
		{"refresh", func(c *Config) { c.RefreshInterval = time.Millisecond }, []string{"RefreshInterval: is 1ms, must be at least 100ms"}},
		{"replicas", func(c *Config) { c.Redis.RouteByLatency = true }, []string{"must go to masters"}},
		{"sentinel and cluster", func(c *Config) { c.Redis.MasterName, c.Redis.IsClusterMode = "m", true }, []string{"use one of them"}},
		{"no timeout", func(c *Config) { c.Redis.ReadTimeout = -1 }, []string{"cannot be switched off"}},
		{"everything at once", func(c *Config) { c.Stream, c.MaxMessageBytes = "", -1 }, []string{"Stream", "MaxMessageBytes"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := good()
			tt.change(&cfg)
			p, err := New(cfg)
			if err == nil {
				_ = p.Close(t.Context())
				t.Fatal("accepted")
			}
			for _, w := range append(tt.words, "producer config: ") {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%q does not mention %q", err, w)
				}
			}
		})
	}
	p, err := New(good())
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// Which client is opened, and that none of them sends twice on its own account.
func TestClients(t *testing.T) {
	single := newNodes(redis.UniversalOptions{Addrs: []string{"127.0.0.1:1"}, MaxRetries: 3})
	sentinel := newNodes(redis.UniversalOptions{Addrs: []string{"127.0.0.1:1"}, MasterName: "m"})
	cluster := newNodes(redis.UniversalOptions{Addrs: []string{"127.0.0.1:1", "127.0.0.1:2"}})
	for name, n := range map[string]*nodes{"single": single, "sentinel": sentinel} {
		if o := n.single.Options(); o.MaxRetries != 0 || !o.ContextTimeoutEnabled {
			t.Errorf("%s: MaxRetries %d, ContextTimeoutEnabled %t", name, o.MaxRetries, o.ContextTimeoutEnabled)
		}
	}
	if o := cluster.cluster.Options(); o.MaxRetries != -1 || !o.ContextTimeoutEnabled {
		t.Errorf("cluster: MaxRetries %d, ContextTimeoutEnabled %t", o.MaxRetries, o.ContextTimeoutEnabled)
	}
	for _, n := range []*nodes{single, sentinel, cluster} {
		if err := n.close(); err != nil {
			t.Error(err)
		}
	}
}

func TestRedirectClientsAreBounded(t *testing.T) {
	n := newNodes(redis.UniversalOptions{Addrs: []string{"127.0.0.1:1"}, IsClusterMode: true, DialerRetries: 1})
	ctx := context.Background()
	var held []func()
	for port := range 2 * maxRedirectClients {
		_, release, err := n.forRedirect(ctx, "127.0.0.1:"+strconv.Itoa(port+1))
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, release)
	}
	if got := len(n.redirects); got != 2*maxRedirectClients {
		t.Errorf("%d clients while all are in use", got)
	}
	for _, release := range held {
		release()
	}
	if got := len(n.redirects); got != maxRedirectClients {
		t.Errorf("%d clients are kept, want %d", got, maxRedirectClients)
	}
	// The same address gets the same client, which becomes the last to go.
	addr := n.redirects[0].addr
	a, releaseA, _ := n.forRedirect(ctx, addr)
	b, releaseB, _ := n.forRedirect(ctx, addr)
	if a != b || n.redirects[maxRedirectClients-1].addr != addr {
		t.Error("a client in use was not found again")
	}
	releaseA()
	releaseB()
	if err := n.close(); err != nil {
		t.Error(err)
	}
	if _, _, err := n.forRedirect(ctx, addr); err != redis.ErrClosed { //nolint:errorlint // the very value
		t.Errorf("after close: %v", err)
	}
}
