package bench

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// store is the Redis of the coordinator's metadata, asked for its counters.
type store struct{ client redis.UniversalClient }

func openStore(o *redis.UniversalOptions) *store { return &store{redis.NewUniversalClient(o)} }

func (s *store) close() error { return s.client.Close() }

// each calls do for every server that takes writes.
func (s *store) each(ctx context.Context, do func(ctx context.Context, c redis.UniversalClient) error) error {
	if cluster, ok := s.client.(*redis.ClusterClient); ok {
		return cluster.ForEachMaster(ctx, func(ctx context.Context, c *redis.Client) error { return do(ctx, c) })
	}
	return do(ctx, s.client)
}

// counters are what the servers have counted since their start, added up.
type counters struct {
	// calls are those of each command, those that scripts make included.
	calls map[string]int64
	// in and out are bytes over the network, as the servers see it.
	in, out int64
	cpu     time.Duration
}

// scripts are the calls of scripts, which are one round trip each.
func (c counters) scripts() int64 {
	return c.calls["evalsha"] + c.calls["eval"] + c.calls["evalsha_ro"] + c.calls["eval_ro"] + c.calls["fcall"]
}

// since returns what was added to before.
func (c counters) since(before counters) counters {
	d := counters{calls: maps.Clone(c.calls), in: c.in - before.in, out: c.out - before.out, cpu: c.cpu - before.cpu}
	for name, n := range before.calls {
		if d.calls[name] -= n; d.calls[name] == 0 {
			delete(d.calls, name)
		}
	}
	return d
}

func (s *store) counters(ctx context.Context) (counters, error) {
	sum := counters{calls: map[string]int64{}}
	var mu sync.Mutex
	err := s.each(ctx, func(ctx context.Context, c redis.UniversalClient) error {
		var text strings.Builder
		for _, section := range []string{"commandstats", "stats", "cpu"} {
			info, err := c.Info(ctx, section).Result()
			if err != nil {
				return err
			}
			text.WriteString(info)
		}
		mu.Lock()
		defer mu.Unlock()
		return sum.add(text.String())
	})
	return sum, err
}

// add reads what INFO says.
func (c *counters) add(info string) error {
	for lines := bufio.NewScanner(strings.NewReader(info)); lines.Scan(); {
		name, value, found := strings.Cut(strings.TrimSpace(lines.Text()), ":")
		if !found {
			continue
		}
		var err error
		switch command, isCommand := strings.CutPrefix(name, "cmdstat_"); {
		case isCommand:
			var n int64
			first, _, _ := strings.Cut(strings.TrimPrefix(value, "calls="), ",")
			n, err = strconv.ParseInt(first, 10, 64)
			c.calls[command] += n
		case name == "total_net_input_bytes":
			err = addNumber(&c.in, value)
		case name == "total_net_output_bytes":
			err = addNumber(&c.out, value)
		case name == "used_cpu_sys" || name == "used_cpu_user":
			var seconds float64
			seconds, err = strconv.ParseFloat(value, 64)
			c.cpu += time.Duration(seconds * float64(time.Second))
		}
		if err != nil {
			return fmt.Errorf("read %s of INFO: %w", name, err)
		}
	}
	return nil
}

func addNumber(into *int64, text string) error {
	n, err := strconv.ParseInt(text, 10, 64)
	*into += n
	return err
}

// forget removes the keys that begin with a prefix.
func (s *store) forget(ctx context.Context, prefix string) error {
	return s.each(ctx, func(ctx context.Context, c redis.UniversalClient) error {
		keys := c.Scan(ctx, 0, prefix+":*", 1000).Iterator()
		for keys.Next(ctx) {
			if err := c.Unlink(ctx, keys.Val()).Err(); err != nil {
				return err
			}
		}
		return keys.Err()
	})
}
