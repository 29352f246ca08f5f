package cli

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestBenchPrintsFiguresOrJSON(t *testing.T) {
	args := []string{"bench", "--embedded", "--members", "4", "--shards", "8", "--connections", "2", "--duration", "200ms"}
	c := start(t, nil, nil, args...)
	if code := c.wait(t); code != 0 || !strings.Contains(c.out.String(), "1 group of 4 members on a stream with 8 shards") || !strings.Contains(c.err.String(), "4 members join") {
		t.Errorf("exit code %d\n%s%s", code, c.out.String(), c.err.String())
	}
	c = start(t, nil, nil, append(args, "--json")...)
	code := c.wait(t)
	var plain struct {
		Embedded           bool
		Heartbeats, Failed float64
	}
	if err := json.Unmarshal([]byte(c.out.String()), &plain); err != nil || code != 0 || c.err.String() != "" {
		t.Fatalf("exit code %d, %v\n%s%s", code, err, c.out.String(), c.err.String())
	}
	if !plain.Embedded || plain.Heartbeats < 2 || plain.Failed != 0 {
		t.Errorf("%+v", plain)
	}
}

func TestBenchRefuses(t *testing.T) {
	for _, tt := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"--members", "20000"}, 2, "members must be between 1 and 10000, got 20000"},
		{[]string{"--duration", "1ms", "--groups", "99"}, 2, "groups must be"},
		{[]string{"--coordinator", "localhost"}, 2, "--coordinator must be a URL"},
		{[]string{"--redis", "http://x"}, 2, "--redis must be a URL"},
		{[]string{"--coordinator", "http://127.0.0.1:1"}, 1, "create the stream of the benchmark"},
	} {
		c := start(t, nil, nil, append([]string{"bench"}, tt.args...)...)
		if code := c.wait(t); code != tt.code || !strings.Contains(c.err.String(), tt.says) {
			t.Errorf("%v: exit code %d\n%s", tt.args, code, c.err.String())
		}
	}
}
