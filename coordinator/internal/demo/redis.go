package demo

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

// backend is the Redis of a demo.
type backend struct {
	// about says which one it is, for people.
	about string
	url   string
	// given says that it belongs to somebody else; embedded that it is inside
	// this process, and keeps no metadata.
	given, embedded bool
	stop            func(ctx context.Context) error
}

// openBackend finds the Redis that the options ask for, or starts one. failed is
// told when one that was started ends by itself.
func openBackend(ctx context.Context, o *Options, trouble func(string), failed func(error)) (*backend, error) {
	if o.RedisURL != "" {
		options, err := redisOptions(o.RedisURL)
		if err != nil {
			return nil, err
		}
		return &backend{
			about: "the Redis that was given, " + strings.Join(options.Addrs, ", "),
			url:   o.RedisURL, given: true,
			stop: func(context.Context) error { return nil },
		}, nil
	}
	if path, err := exec.LookPath("redis-server"); err == nil && !o.Embedded {
		return startServer(ctx, o, path, trouble, failed)
	}
	mini := miniredis.NewMiniRedis()
	if err := mini.StartAddr("127.0.0.1:0"); err != nil {
		return nil, fmt.Errorf("start the embedded Redis: %w", err)
	}
	reason := "there is no redis-server in PATH"
	if o.Embedded {
		reason = "as asked for"
	}
	return &backend{
		about: "an embedded stand-in for Redis (" + reason + "); " + o.metadata("the coordinator keeps its metadata in memory"),
		url:   "redis://" + mini.Addr(), embedded: true,
		stop: func(context.Context) error {
			mini.Close()
			return nil
		},
	}, nil
}

// redisOptions makes what our modules take of a URL.
func redisOptions(url string) (redis.UniversalOptions, error) {
	o, err := redis.ParseURL(url)
	if err != nil {
		// The error of the parser may quote the URL, and with it a password.
		return redis.UniversalOptions{}, errors.New("the Redis URL cannot be read: it must be like redis://user:password@host:6379/0, rediss:// for TLS, or unix:///path/of/socket")
	}
	return redis.UniversalOptions{
		Addrs: []string{o.Addr}, DB: o.DB, Username: o.Username, Password: o.Password, TLSConfig: o.TLSConfig,
		DialTimeout: o.DialTimeout, ReadTimeout: o.ReadTimeout, WriteTimeout: o.WriteTimeout,
	}, nil
}
