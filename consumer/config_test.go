package consumer_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redis-stream-coordinator/rsc/consumer"
)

// logBuffer is a log that can be read while it is written.
type logBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func (b *logBuffer) logger() *slog.Logger { return slog.New(slog.NewTextHandler(b, nil)) }

func nothing(context.Context, consumer.Record) error { return nil }

func TestNewRefusesAConfigThatCannotWork(t *testing.T) {
	good := func() consumer.Config {
		return consumer.Config{Coordinators: []string{"http://127.0.0.1:8080"}, Stream: "orders", Group: "billing", Handler: nothing}
	}
	if _, err := consumer.New(good()); err != nil {
		t.Fatalf("the smallest config is refused: %v", err)
	}
	for _, tc := range []struct {
		name   string
		change func(*consumer.Config)
		words  []string
	}{
		{"nothing set", func(c *consumer.Config) { *c = consumer.Config{} }, []string{"Stream", "Group", "Coordinators: is empty", "Handler: is nil"}},
		{"a prefix with braces", func(c *consumer.Config) { c.Stream = "a{b}" }, []string{"Stream: must not contain { or }"}},
		{"names with a slash", func(c *consumer.Config) { c.MemberID, c.MemberName = "a/b", "c/d" }, []string{"MemberID", "MemberName"}},
		{"both ways to a coordinator", func(c *consumer.Config) { c.Transport = &coordinator{} }, []string{"Transport is set too"}},
		{"too many coordinators", func(c *consumer.Config) { c.Coordinators = make([]string, 65) }, []string{"has 65 entries"}},
		{"not a URL", func(c *consumer.Config) { c.Coordinators = []string{"http://a:b c"} }, []string{"Coordinators[0]: is not a URL"}},
		{"another scheme", func(c *consumer.Config) { c.Coordinators = []string{"redis://a"} }, []string{"Coordinators[0]: must be of the form"}},
		{"a password in the URL", func(c *consumer.Config) { c.Coordinators = []string{"http://u:p@a"} }, []string{"Coordinators[0]: must not contain a user"}},
		{"a query", func(c *consumer.Config) { c.Coordinators = []string{"http://a?b"} }, []string{"Coordinators[0]: must not have a query"}},
		{"handler and lifecycle", func(c *consumer.Config) { c.Lifecycle = new(watcher) }, []string{"Handler is set too"}},
		{"batches", func(c *consumer.Config) { c.BatchSize = -1 }, []string{"BatchSize: is -1"}},
		{"times", func(c *consumer.Config) {
			c.BlockTime, c.AckInterval, c.ShutdownTimeout, c.MaxWait = time.Hour, time.Hour, -1, 2*time.Hour
		}, []string{"BlockTime: is 1h0m0s", "AckInterval: is 1h0m0s", "ShutdownTimeout: is -1ns", "MaxWait: is 2h0m0s"}},
		{"an HTTP client that is impatient", func(c *consumer.Config) { c.HTTPClient = &http.Client{Timeout: time.Second} }, []string{"HTTPClient: gives up after 1s"}},
		{"reads from replicas", func(c *consumer.Config) { c.Redis.ReadOnly = true }, []string{"Redis: ReadOnly"}},
		{"retention", func(c *consumer.Config) {
			c.Retention = consumer.Retention{For: -1, Records: -1, Interval: time.Millisecond}
		}, []string{"Retention.For: is -1ns", "Retention.Records: is -1", "Retention.Interval: is 1ms"}},
		{"two topologies", func(c *consumer.Config) { c.Redis.MasterName, c.Redis.IsClusterMode = "m", true }, []string{"Redis: MasterName"}},
		{"no timeouts", func(c *consumer.Config) { c.Redis.ReadTimeout = -1 }, []string{"Redis: ReadTimeout"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cfg := good()
			tc.change(&cfg)
			_, err := consumer.New(cfg)
			if err == nil {
				t.Fatal("New took it")
			}
			for _, w := range tc.words {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%q does not say %q", err, w)
				}
			}
			if strings.Contains(err.Error(), "u:p") {
				t.Error("the error holds a password")
			}
		})
	}
}

func TestDefaultMemberIDs(t *testing.T) {
	cfg := consumer.Config{
		Coordinators: []string{"http://127.0.0.1:8080/base/"}, Stream: "orders", Group: "billing", Handler: nothing,
		HTTPClient: &http.Client{Timeout: time.Second}, MaxWait: -1, Redis: redis.UniversalOptions{Addrs: []string{"127.0.0.1:1"}},
	}
	a, err := consumer.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	b, err := consumer.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if a.MemberID() == "" || a.MemberID() == b.MemberID() {
		t.Errorf("ids %q and %q", a.MemberID(), b.MemberID())
	}
	if a.LeaseLeft() > 0 {
		t.Error("a consumer that has not run has a lease")
	}
}

func TestPasswordsStayOutOfLogs(t *testing.T) {
	c := consumer.BasicAuth("me", "secret")
	for _, text := range []string{fmt.Sprint(c), fmt.Sprintf("%+v", c), fmt.Sprintf("%#v", c)} {
		if strings.Contains(text, "secret") || !strings.Contains(text, "me") {
			t.Errorf("it prints as %s", text)
		}
	}
}

func TestPanicErrorUnwraps(t *testing.T) {
	err := &consumer.PanicError{Value: context.Canceled}
	if err.Unwrap() != context.Canceled { //nolint:errorlint // this is about Unwrap itself
		t.Error("the error that was panicked with is lost")
	}
	if (&consumer.PanicError{Value: "oh"}).Unwrap() != nil {
		t.Error("a word is no error")
	}
	if !strings.Contains(err.Error(), "context canceled") {
		t.Error(err)
	}
}
