package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/memstore"
	"github.com/redis-stream-coordinator/rsc/core/port/porttest"
	"github.com/redis-stream-coordinator/rsc/core/service"
)

// FuzzRequests sends anything to any route of a real coordinator, as somebody who may
// do everything: it is carried out or refused, and nothing fails or breaks.
func FuzzRequests(f *testing.F) {
	redis, store := new(porttest.Model), memstore.New()
	c, err := service.New(service.Config{ID: "c-1", MaxShards: 16, Logger: slog.New(slog.DiscardHandler)}, service.Ports{
		Store: store, Streams: redis, Inspector: redis, Signal: store,
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() {
		ctx, done := context.WithTimeout(context.Background(), time.Minute)
		defer done()
		if err := c.Close(ctx); err != nil {
			f.Errorf("Close: %v", err)
		}
	})
	h := newAPI(f, c)
	redis.Add("orders:0", "1-0", "k", "v")
	routes := h.api.routes()
	for i := range routes {
		f.Add(uint8(i), "orders", "billing", "m", "0", "limit=2&direction=FORWARD&cursor=all:0=1-0&streamPrefix=orders&consumerGroup=billing", minimalBeat)
		f.Add(uint8(i), "orders", "billing", "m", "0", "streamPrefix=orders&consumerGroup=billing&shardIndex=all&cursor=__rsc_tail__:1", createBody)
		f.Add(uint8(i), "a b", "g", "m", "-1", "streamPrefix=&consumerGroup=&recordId=1-0", deleteBody)
		f.Add(uint8(i), "orders", "billing", "m", "65535", "streamPrefix=%zz;", `{"targetShardCount":3,"requestedBy":"x","reason":"y","memberLeaseTtlMs":9223372036854775807}`)
		f.Add(uint8(i), "\x00", "{}", "/", "999999999999999999999", "cursor=18446744073709551615-18446744073709551615", `[1,2`)
	}
	f.Fuzz(func(t *testing.T, i uint8, prefix, group, member, shard, query, body string) {
		r := routes[int(i)%len(routes)]
		path := strings.NewReplacer(":streamPrefix", url.PathEscape(prefix), ":consumerGroup", url.PathEscape(group), ":memberId", url.PathEscape(member),
			":shardIndex", url.PathEscape(shard), ":reshardingId", url.PathEscape(member)).Replace(r.path)
		target, err := url.Parse(path)
		if err != nil {
			t.Skip("no connection carries it")
		}
		target.RawQuery = strings.Map(func(c rune) rune {
			if c <= ' ' || c >= 0x7f || c == '#' {
				return -1
			}
			return c
		}, query)
		w := reckless(t, h, r.method, target.String(), as("admin"), body)
		switch {
		case w.Code == http.StatusServiceUnavailable && strings.Contains(w.Body.String(), "REDIS_NOT_CONFIGURED"):
			// Shards are let go by a port that this coordinator has not.
		case w.Code >= 500:
			t.Errorf("%s %s %q: %d %s", r.method, target, body, w.Code, w.Body)
		}
	})
}
