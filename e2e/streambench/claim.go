package main

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/redis/go-redis/v9"
)

// claimReader takes over by hand what another consumer left: XAUTOCLAIM of
// rawCount records at a time whatever their idle time, one XACK for all of them.
func claimReader() reader {
	return reader{name: "raw", layout: plainLayout, start: func(ctx context.Context, s *stream, handle func(int)) (func() error, error) {
		client := s.b.redis.client(len(s.keys) + 1)
		errs := make([]error, len(s.keys))
		var running sync.WaitGroup
		for i, key := range s.keys {
			running.Go(func() { errs[i] = claimLoop(ctx, client, key, handle) })
		}
		return func() error {
			running.Wait()
			return errors.Join(errors.Join(errs...), client.Close())
		}, nil
	}}
}

func claimLoop(ctx context.Context, client redis.UniversalClient, key string, handle func(int)) error {
	ids := make([]string, 0, rawCount)
	for start := "0-0"; ; {
		found, next, err := client.XAutoClaim(ctx, &redis.XAutoClaimArgs{
			Stream: key, Group: group, Consumer: "bench", Start: start, Count: rawCount,
		}).Result()
		if err != nil {
			return fmt.Errorf("claim in %s: %w", key, err)
		}
		ids = ids[:0]
		for i := range found {
			payload, _ := found[i].Values[payloadField].(string)
			handle(indexOf(payload))
			ids = append(ids, found[i].ID)
		}
		if len(ids) > 0 {
			if err := client.XAck(ctx, key, group, ids...).Err(); err != nil {
				return fmt.Errorf("acknowledge in %s: %w", key, err)
			}
		}
		if next == "0-0" {
			return nil
		}
		start = next
	}
}
