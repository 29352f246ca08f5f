package redis

import (
	"strings"
	"testing"
	"time"
)

func TestZeroConfigIsValid(t *testing.T) {
	cfg := Config{}.withDefaults()
	if err := cfg.validate(); err != nil {
		t.Error(err)
	}
	if cfg.URL != DefaultURL || cfg.KeyPrefix != "redis-stream:coord" || cfg.Mutex.TTL != 1500*time.Millisecond ||
		cfg.Mutex.AcquireTimeout != 5*time.Second || cfg.Mutex.RetryInterval != 100*time.Millisecond {
		t.Errorf("defaults: %+v", cfg)
	}
}

func TestConfigComplaints(t *testing.T) {
	_, err := Open(t.Context(), Config{
		KeyPrefix:    "a{b",
		DialTimeout:  -1,
		Timeout:      time.Hour,
		PoolSize:     -1,
		AuditEntries: -1,
		Mutex:        MutexConfig{TTL: time.Millisecond, AcquireTimeout: time.Microsecond, RetryInterval: -time.Second},
	})
	if err == nil {
		t.Fatal("no complaint")
	}
	for _, want := range []string{
		`KeyPrefix is "a{b"`, "DialTimeout is -1ns", "Timeout is 1h0m0s, must be between 10ms and 1m0s", "PoolSize is -1", "AuditEntries is -1, must be between 1 and 1000000",
		"Mutex.TTL is 1ms", "Mutex.AcquireTimeout is 1µs", "Mutex.RetryInterval is -1s",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in:\n%v", want, err)
		}
	}
}

// TestServersComplaints: what says where the servers are must not contradict
// itself.
func TestServersComplaints(t *testing.T) {
	for name, test := range map[string]struct {
		cfg  Config
		want string
	}{
		"two kinds":             {Config{URL: DefaultURL, Addrs: []string{"a:1"}}, "URL and Addrs are both set"},
		"no Sentinels":          {Config{MasterName: "m"}, "Addrs names no Sentinel"},
		"no master":             {Config{Addrs: []string{"a:1"}, SentinelPassword: "s3cret"}, "MasterName is not set"},
		"database of a Cluster": {Config{Addrs: []string{"a:1"}, Database: 2}, "Database is 2"},
		"no port":               {Config{Addrs: []string{"a:1", "b"}}, `Addrs[1] is "b", must be host:port`},
		"no host":               {Config{Addrs: []string{":1"}}, "Addrs[0]"},
		"patience":              {Config{Patience: time.Hour}, "Patience is 1h0m0s"},
	} {
		_, err := Open(t.Context(), test.cfg)
		if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: got %v, want %q", name, err, test.want)
		}
	}
}

// TestURLErrorsKeepThePassword: a URL that cannot be read is not shown.
func TestURLErrorsKeepThePassword(t *testing.T) {
	for _, url := range []string{
		"redis://user:s3cret@host:port", "http://user:s3cret@host", "redis://user:s3cret@host/x", "redis://user:s3cret@ho st", "redis://user:s3cret@host?what=1", "://s3cret",
		"redis://user:s3cret%zz@host",
	} {
		_, err := Open(t.Context(), Config{URL: url})
		if err == nil || !strings.Contains(err.Error(), "URL") {
			t.Errorf("%s: got %v, want a complaint about the URL", url, err)
		}
		if err != nil && strings.Contains(err.Error(), "s3cret") {
			t.Errorf("the password is in the error: %v", err)
		}
	}
}
