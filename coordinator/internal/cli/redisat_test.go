package cli

import (
	"reflect"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func TestRedisAt(t *testing.T) {
	type place struct {
		Addrs                    []string
		Cluster                  bool
		Master                   string
		User, Password           string
		Database                 int
		TLS                      bool
		ServerName, AdapterURL   string
		AdapterAddrs             []string
		AdapterMaster, ErrorText string
	}
	cases := []struct {
		name     string
		args     []string
		fallback string
		want     place
	}{
		{"default", nil, defaultRedis, place{Addrs: []string{"127.0.0.1:6379"}, AdapterURL: "redis://127.0.0.1:6379/0"}},
		{"one server", []string{"--redis", "redis://u:p@h:1/3"}, defaultRedis, place{Addrs: []string{"h:1"}, User: "u", Password: "p", Database: 3, AdapterURL: "redis://h:1/3"}},
		{"TLS", []string{"--redis", "rediss://h"}, defaultRedis, place{Addrs: []string{"h:6379"}, TLS: true, ServerName: "h", AdapterURL: "redis://h:6379/0"}},
		{"a Cluster with commas", []string{"--redis", "rediss://u:p@a:1,b:2,c"}, defaultRedis,
			place{Addrs: []string{"a:1", "b:2", "c:6379"}, Cluster: true, User: "u", Password: "p", TLS: true, AdapterAddrs: []string{"a:1", "b:2", "c:6379"}}},
		{"a Cluster, repeated", []string{"--redis", "redis://a:1", "--redis", "redis://b:2"}, defaultRedis,
			place{Addrs: []string{"a:1", "b:2"}, Cluster: true, AdapterAddrs: []string{"a:1", "b:2"}}},
		{"a Cluster of the environment", nil, "redis://:p@a:1,b:2", place{Addrs: []string{"a:1", "b:2"}, Cluster: true, Password: "p", AdapterAddrs: []string{"a:1", "b:2"}}},
		{"a Cluster with one address", []string{"--redis", "redis://a:1", "--redis-cluster"}, defaultRedis, place{Addrs: []string{"a:1"}, Cluster: true, AdapterAddrs: []string{"a:1"}}},
		{"Sentinels", []string{"--redis", "redis://:p@a:1,b:2/2", "--redis-master", "m"}, defaultRedis,
			place{Addrs: []string{"a:1", "b:2"}, Master: "m", Password: "p", Database: 2, AdapterAddrs: []string{"a:1", "b:2"}, AdapterMaster: "m"}},
		{"Sentinels with a database", []string{"--redis", "redis://:p@a:1/2", "--redis", "b:2", "--redis-master", "m"}, defaultRedis,
			place{Addrs: []string{"a:1", "b:2"}, Master: "m", Password: "p", Database: 2, AdapterAddrs: []string{"a:1", "b:2"}, AdapterMaster: "m"}},
		{"a password with a comma", []string{"--redis", "redis://:p,x@h:1"}, defaultRedis, place{Addrs: []string{"h:1"}, Password: "p,x", AdapterURL: "redis://h:1/0"}},
		{"IPv6", []string{"--redis", "redis://[::1]:1,::2"}, defaultRedis, place{Addrs: []string{"[::1]:1", "[::2]:6379"}, Cluster: true, AdapterAddrs: []string{"[::1]:1", "[::2]:6379"}}},
		{"two kinds", []string{"--redis-cluster", "--redis-master", "m"}, defaultRedis, place{ErrorText: "use one of them"}},
		{"a database of a Cluster", []string{"--redis", "redis://a:1/2", "--redis", "redis://b:1/2"}, defaultRedis, place{ErrorText: "no other than 0"}},
		{"two passwords", []string{"--redis", "redis://:canary@a:1", "--redis", "redis://:canary2@b:1"}, defaultRedis, place{ErrorText: "give them once"}},
		{"no URL", []string{"--redis", "h:1"}, defaultRedis, place{ErrorText: "--redis must be a URL"}},
		{"a gap", []string{"--redis", "redis://:canary@h:1,,b:1"}, defaultRedis, place{ErrorText: "--redis must be a URL"}},
		{"a socket", []string{"--redis", "unix:///canary"}, defaultRedis, place{ErrorText: "--redis must be a URL"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var r redisAt
			flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
			r.flags(flags)
			if err := flags.Parse(c.args); err != nil {
				t.Fatal(err)
			}
			if err := r.resolve(c.fallback); err != nil {
				if c.want.ErrorText == "" || !strings.Contains(err.Error(), c.want.ErrorText) || strings.Contains(err.Error(), "canary") {
					t.Errorf("got %v, want %q", err, c.want.ErrorText)
				}
				return
			}
			o, a := r.options(), r.config()
			got := place{
				Addrs: o.Addrs, Cluster: o.IsClusterMode, Master: o.MasterName, User: o.Username, Password: o.Password, Database: o.DB, TLS: o.TLSConfig != nil,
				AdapterURL: a.URL, AdapterAddrs: a.Addrs, AdapterMaster: a.MasterName,
			}
			if got.TLS {
				got.ServerName = o.TLSConfig.ServerName
			}
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("got  %+v\nwant %+v", got, c.want)
			}
			if a.Username != o.Username || a.Password != o.Password || (a.TLS != nil) != got.TLS {
				t.Errorf("the adapter is told otherwise: %+v", a)
			}
		})
	}
}
