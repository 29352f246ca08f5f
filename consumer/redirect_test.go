package consumer

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// reply is an error that a server answered.
type reply string

func (r reply) Error() string { return string(r) }
func (reply) RedisError()     {}

var _ redis.Error = reply("")

func TestCompleteAddr(t *testing.T) {
	for _, tc := range []struct{ addr, from, want string }{
		{"10.0.0.1:7000", "10.0.0.2:7001", "10.0.0.1:7000"},
		{"node-1.example:7000", "10.0.0.2:7001", "node-1.example:7000"},
		{":7000", "10.0.0.2:7001", "10.0.0.2:7000"},
		{"?:7000", "10.0.0.2:7001", "10.0.0.2:7000"},
		{"::1:7000", "10.0.0.2:7001", "[::1]:7000"},
		{"[::1]:7000", "10.0.0.2:7001", "[::1]:7000"},
		{":7000", "[::1]:7001", "[::1]:7000"},
		{":7000", "", ":7000"},
		{"nothing", "10.0.0.2:7001", "nothing"},
	} {
		if got := completeAddr(tc.addr, tc.from); got != tc.want {
			t.Errorf("%q from %q: %q, want %q", tc.addr, tc.from, got, tc.want)
		}
	}
}

// TestFaults: what servers say, in the words of several versions.
func TestFaults(t *testing.T) {
	single := newServers(t.Context(), redis.UniversalOptions{Addrs: []string{"127.0.0.1:1"}, Username: "plain"}, 1, time.Second)
	defer single.close()
	cluster := newServers(t.Context(), redis.UniversalOptions{Addrs: []string{"127.0.0.1:1"}, IsClusterMode: true}, 1, time.Second)
	defer cluster.close()
	for _, tc := range []struct {
		err             error
		single, cluster string
		hopeless        bool
	}{
		{errors.New("EOF"), faultUnreachable, faultUnreachable, false},
		{reply("NOPERM this user has no permissions to run the 'xpending' command"), faultPermission, faultPermission, true},
		{reply("NOPERM User plain has no permissions to run the 'xinfo|groups' command"), faultPermission, faultPermission, true},
		{reply("NOPERM No permissions to access a key"), faultPermission, faultPermission, true},
		{reply("WRONGPASS invalid username-password pair or user is disabled."), faultLogin, faultLogin, false},
		{reply("NOAUTH Authentication required."), faultLogin, faultLogin, false},
		{reply("WRONGTYPE Operation against a key holding the wrong kind of value"), faultNotAStream, faultNotAStream, false},
		{reply("NOGROUP No such key 'orders:0' or consumer group 'g' in XREADGROUP with GROUP option"), faultGroupGone, faultGroupGone, false},
		{reply("UNBLOCKED the stream key no longer exists"), faultGroupGone, faultGroupGone, false},
		{reply("LOADING Redis is loading the dataset in memory"), faultPassing, faultPassing, false},
		{reply("READONLY You can't write against a read only replica."), faultPassing, faultPassing, false},
		{reply("CLUSTERDOWN Hash slot not served"), faultPassing, faultPassing, false},
		{reply("MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'."), faultPassing, faultPassing, false},
		{reply("TRYAGAIN Multiple keys request during rehashing of slot"), faultPassing, faultPassing, false},
		{reply("ERR max number of clients reached"), faultMaxClients, faultMaxClients, false},
		{errServerFull, faultMaxClients, faultMaxClients, false},
		{reply("ERR syntax error"), faultRefused, faultRefused, false},
	} {
		for _, side := range []struct {
			servers *servers
			want    string
		}{{single, tc.single}, {cluster, tc.cluster}} {
			err := fmt.Errorf("wrapped: %w", tc.err)
			f := side.servers.diagnose(err, "orders")
			if f.kind != side.want {
				t.Errorf("%v: %s, want %s", tc.err, f.kind, side.want)
			}
			if got := f.hopeless(err) != nil; got != tc.hopeless {
				t.Errorf("%v: hopeless %t", tc.err, got)
			}
		}
	}
	if f := single.diagnose(reply("MOVED 1 127.0.0.1:7000"), "orders"); f.kind != faultIsCluster {
		t.Errorf("MOVED to a client of one server: %s", f.kind)
	}
	if f := cluster.diagnose(reply("MOVED 1 127.0.0.1:7000"), "orders"); f.kind != faultRedirects {
		t.Errorf("MOVED too often: %s", f.kind)
	}
	if f := cluster.diagnose(reply("ERR This instance has cluster support disabled"), "orders"); f.kind != faultNoCluster {
		t.Errorf("no cluster: %s", f.kind)
	}
	for text, want := range map[string]string{
		"NOPERM this user has no permissions to run the 'xpending' command":               "ACL SETUSER plain +xpending",
		"NOPERM User plain has no permissions to run the 'xinfo|groups' command":          "ACL SETUSER plain +xinfo|groups",
		"NOPERM this user has no permissions to access one of the keys used as arguments": "ACL SETUSER plain ~orders:*",
		"NOPERM No permissions to access a key":                                           "ACL SETUSER plain ~orders:*",
	} {
		if got := single.permission(text, "orders"); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
