package cli

import (
	"strings"
	"testing"
)

func TestDemoCommand(t *testing.T) {
	for _, c := range []struct {
		name    string
		environ []string
		args    []string
		code    int
		out     string // what is written, or how it begins
		err     string // how it begins
	}{
		{"help", nil, []string{"demo", "--help"}, 0, "Runs two coordinators on one store, a producer and consumers", ""},
		{"no number", nil, []string{"demo", "--seconds", "soon"}, 2, "", `rsc demo: --seconds is "soon", must be a number`},
		{"no number in the environment", []string{"DEMO_RATE=fast"}, []string{"demo"}, 2, "", `rsc demo: --rate is "fast", must be a number`},
		{"out of bounds", []string{"DEMO_SECONDS=100000"}, []string{"demo"}, 2, "", "rsc demo: seconds: is 100000, must be between 1 and 600"},
		{"the flag wins", []string{"DEMO_SECONDS=100000"}, []string{"demo", "--seconds", "5", "--rate", "1"}, 2, "", "rsc demo: rate: is 1 records a second"},
		{"two kinds of Redis", nil, []string{"demo", "--redis", "redis://127.0.0.1:1", "--embedded"}, 2, "", "rsc demo: embedded: a Redis URL is given too"},
		{"no store", nil, []string{"demo", "--store", "disk"}, 2, "", `rsc demo: --store is "disk", must be redis or sqlite`},
		// What is wrong is told once, in the last line of the output.
		{"it fails", []string{"REDIS_URL=nonsense"}, []string{"demo"}, 1, "demo: failed: the Redis URL cannot be read", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := start(t, c.environ, nil, c.args...)
			if code := got.wait(t); code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			if out := got.out.String(); !strings.HasPrefix(out, c.out) || c.out == "" && out != "" {
				t.Errorf("stdout: %q", out)
			}
			if err := got.err.String(); !strings.HasPrefix(err, c.err) || c.err == "" && err != "" {
				t.Errorf("stderr: %q", err)
			}
		})
	}
}

// The processes of the demo are not for people, and end without orders.
func TestCommandsOfTheDemoAreHidden(t *testing.T) {
	help := start(t, nil, nil, "--help")
	help.wait(t)
	if strings.Contains(help.out.String(), "demo-") || !strings.Contains(help.out.String(), "\n  demo ") {
		t.Errorf("help:\n%s", help.out.String())
	}
	for _, name := range []string{"demo-consumer", "demo-coordinator", "demo-redis"} {
		c := start(t, nil, nil, name)
		if code := c.wait(t); code != 1 || !strings.Contains(c.err.String(), "read the orders, one line of JSON") {
			t.Errorf("%s without orders: exit code %d, %s", name, code, c.err.String())
		}
	}
}
