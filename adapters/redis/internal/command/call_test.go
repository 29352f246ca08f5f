package command

import (
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"
)

// reply is an error that a server answers.
type reply string

func (r reply) Error() string { return string(r) }
func (reply) RedisError()     {}

// TestJudge: what says "not carried out" may be sent again, and after a lost
// answer only what may be carried out twice.
func TestJudge(t *testing.T) {
	dial := &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	read := &net.OpError{Op: "read", Err: syscall.ECONNRESET}
	for _, test := range []struct {
		err           error
		once, movable bool
		want          verdict
	}{
		{nil, false, true, settled},
		{redis.Nil, false, true, settled},
		{reply("ERR no"), false, true, settled},
		{reply("NOPERM no"), false, true, settled},
		{reply("BUSYGROUP Consumer Group name already exists"), true, true, settled},
		{reply("OOM command not allowed"), true, true, settled},
		{reply("LOADING Redis is loading"), true, false, passing},
		{reply("READONLY You can't write"), true, true, passing},
		{reply("CLUSTERDOWN The cluster is down"), true, true, passing},
		{reply("TRYAGAIN Multiple keys"), true, true, passing},
		{reply("BUSY Redis is busy running a script"), true, true, passing},
		{io.EOF, false, true, passing},
		{io.EOF, true, true, settled},
		{io.EOF, false, false, settled},
		{read, true, true, settled},
		{dial, true, true, passing},
		{dial, true, false, settled},
		{redis.ErrPoolTimeout, true, true, passing},
		{errors.Join(errNoServer, io.EOF), true, true, passing},
	} {
		c := call{err: test.err, once: test.once}
		if got := c.judge(test.movable); got != test.want {
			t.Errorf("%v, once %t, movable %t: %d, want %d", test.err, test.once, test.movable, got, test.want)
		}
	}
}

func TestUnavailable(t *testing.T) {
	for _, test := range []struct {
		err  error
		want bool
	}{
		{fmt.Errorf("reach redis: %w", io.EOF), true},
		{fmt.Errorf("reach redis: %w", &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}), true},
		{fmt.Errorf("reach redis: %w", reply("LOADING Redis is loading the dataset in memory")), true},
		{reply("CLUSTERDOWN Hash slot not served"), true},
		{reply("WRONGPASS invalid username-password pair"), false},
		{reply("NOAUTH Authentication required."), false},
		{errPartOfCluster, false},
	} {
		if got := Unavailable(test.err); got != test.want {
			t.Errorf("%v: %t, want %t", test.err, got, test.want)
		}
	}
}

func TestCompleteAddr(t *testing.T) {
	for _, test := range []struct{ addr, from, want string }{
		{"10.0.0.1:7000", "10.0.0.9:7001", "10.0.0.1:7000"},
		{":7000", "10.0.0.9:7001", "10.0.0.9:7000"},
		{"?:7000", "10.0.0.9:7001", "10.0.0.9:7000"},
		{"fe80::1:7000", "10.0.0.9:7001", "[fe80::1]:7000"},
		{"[fe80::1]:7000", "10.0.0.9:7001", "[fe80::1]:7000"},
		{"node.example:7000", "10.0.0.9:7001", "node.example:7000"},
		{"nonsense", "10.0.0.9:7001", "nonsense"},
	} {
		if got := completeAddr(test.addr, test.from); got != test.want {
			t.Errorf("%q from %s: %q, want %q", test.addr, test.from, got, test.want)
		}
	}
}

func TestMissingRule(t *testing.T) {
	for text, want := range map[string]string{
		"NOPERM this user has no permissions to run the 'xgroup|create' command":                            "+xgroup|create",
		"NOPERM User narrow has no permissions to run the 'type' command":                                   "+type",
		"NOPERM this user has no permissions to access one of the keys used as arguments":                   `~a\*b:*`,
		"NOPERM No permissions to access a key":                                                             `~a\*b:*`,
		"ERR The user executing the script can't run this command or subcommand script: f, on @user_script": "+type +unlink",
		"ERR something else": "",
	} {
		c := call{key: "a*b:3", needs: "+type +unlink", err: reply(text)}
		if got := c.missingRule(); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}
