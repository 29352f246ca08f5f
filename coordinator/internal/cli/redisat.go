package cli

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"

	goredis "github.com/redis/go-redis/v9"
	"github.com/spf13/pflag"

	"github.com/redis-stream-coordinator/rsc/adapters/redis"
)

const defaultRedisPort = "6379"

// redisAt says where the Redis is that holds a stream: one server, a Cluster, or
// the master that Sentinels watch.
type redisAt struct {
	given   []string
	cluster bool
	// master is what Sentinels call the server, whose addresses are then theirs.
	master string

	// addrs and what follows is set by resolve.
	addrs              []string
	username, password string
	database           int
	tls                *tls.Config
}

func (r *redisAt) flags(f *pflag.FlagSet) {
	// The default is not shown: it may hold a password.
	f.StringArrayVar(&r.given, "redis", nil, "`URL` of the Redis that holds the stream, also REDIS_URL (default "+defaultRedis+"); several, with commas or repeated, are a Cluster")
	f.BoolVar(&r.cluster, "redis-cluster", false, "the Redis is a Cluster, also when --redis names one address")
	f.StringVar(&r.master, "redis-master", "", "`name` that Sentinels know the server by; --redis then names the Sentinels")
}

// resolve completes the place with what the environment or the default says, and
// returns all complaints about it.
func (r *redisAt) resolve(fallback string) error {
	given := r.given
	if len(given) == 0 {
		given = []string{fallback}
	}
	var parts []string
	for _, one := range given {
		parts = append(parts, splitAddresses(one)...)
	}
	if err := r.parse(parts); err != nil {
		return err
	}
	switch {
	case r.master != "" && r.cluster:
		return errors.New("--redis-master is for Sentinels and --redis-cluster for a Cluster, use one of them")
	case r.master == "" && len(r.addrs) > 1:
		r.cluster = true
	}
	if r.tls != nil && (r.cluster || r.master != "") {
		r.tls = r.tls.Clone()
		r.tls.ServerName = "" // each server goes by its own
	}
	if r.cluster && r.database != 0 {
		return fmt.Errorf("--redis names database %d, but a Cluster has no other than 0", r.database)
	}
	return nil
}

// splitAddresses splits a list at its commas; those of a user or password stay.
func splitAddresses(list string) []string {
	at := strings.LastIndexByte(list, '@') + 1
	parts := strings.Split(list[at:], ",")
	parts[0] = list[:at] + parts[0]
	return parts
}

// parse reads a URL and, behind it, URLs or just host:port.
func (r *redisAt) parse(parts []string) error {
	// The errors of the parser are not shown: they quote the URL, password included.
	wrong := fmt.Errorf("--redis must be a URL such as %s, or redis://user:password@host:port/database, rediss:// for TLS; addresses of the same Cluster may follow, with commas between them", defaultRedis)
	for i, part := range parts {
		part = strings.TrimSpace(part)
		if i > 0 && part != "" && !strings.Contains(part, "://") {
			if _, _, err := net.SplitHostPort(part); err != nil {
				part = net.JoinHostPort(strings.Trim(part, "[]"), defaultRedisPort)
			}
			part = "redis://" + part
		}
		o, err := goredis.ParseURL(part)
		if err != nil || o.Network != "tcp" {
			return wrong
		}
		r.addrs = append(r.addrs, o.Addr)
		if i == 0 {
			r.username, r.password, r.database, r.tls = o.Username, o.Password, o.DB, o.TLSConfig
		} else if o.Password != "" && o.Password != r.password {
			return errors.New("--redis names several users or passwords: give them once, with the first address")
		} else if o.DB != 0 {
			r.database = o.DB
		}
	}
	return nil
}

// options are what consumer and producer take.
func (r *redisAt) options() goredis.UniversalOptions {
	return goredis.UniversalOptions{
		Addrs: r.addrs, IsClusterMode: r.cluster, MasterName: r.master,
		Username: r.username, Password: r.password, DB: r.database, TLSConfig: r.tls,
	}
}

// config is what the adapter takes.
func (r *redisAt) config() redis.Config {
	c := redis.Config{Username: r.username, Password: r.password, TLS: r.tls}
	switch {
	case r.cluster:
		c.Addrs = r.addrs
	case r.master != "":
		c.Addrs, c.MasterName, c.Database = r.addrs, r.master, r.database
	default:
		c.URL = fmt.Sprintf("redis://%s/%d", r.addrs[0], r.database)
	}
	return c
}
