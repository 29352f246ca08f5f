package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/pprof"

	"github.com/redis/go-redis/v9"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// bench is what all runs share.
type bench struct {
	settings

	redis         *fleet
	serverVersion string
	coord         *coordinator
	// admin fills, checks and removes streams.
	admin redis.UniversalClient
	// jobs counts the streams that were made, so that each has a name of its own.
	jobs int
}

func newBench(ctx context.Context, s settings) (*bench, error) {
	fleet, err := startFleet(ctx, s)
	if err != nil {
		return nil, err
	}
	coord, err := newCoordinator(ctx, protocol.Timings{})
	if err != nil {
		return nil, errors.Join(err, fleet.close())
	}
	b := &bench{settings: s, redis: fleet, coord: coord, admin: fleet.client(4)}
	first := newClient(fleet.nodes[0].addr)
	b.serverVersion = first.InfoMap(ctx, "server").Item("Server", "redis_version")
	if err := first.Close(); err != nil {
		return nil, errors.Join(err, b.close(ctx))
	}
	return b, nil
}

func (b *bench) close(ctx context.Context) error {
	return errors.Join(b.coord.close(ctx), b.admin.Close(), b.redis.close())
}

// compareProfiled is compare under the profiles that were asked for.
func (b *bench) compareProfiled(ctx context.Context, cases []benchCase, log io.Writer) (_ []result, err error) {
	if b.cpuProfile != "" {
		file, err := os.Create(b.cpuProfile)
		if err != nil {
			return nil, err
		}
		if err := pprof.StartCPUProfile(file); err != nil {
			return nil, errors.Join(err, file.Close())
		}
		defer func() {
			pprof.StopCPUProfile()
			err = errors.Join(err, file.Close())
		}()
	}
	if b.memProfile != "" {
		defer func() { err = errors.Join(err, writeAllocs(b.memProfile)) }()
	}
	return b.compare(ctx, cases, log)
}

func writeAllocs(name string) error {
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(pprof.Lookup("allocs").WriteTo(file, 0), file.Close())
}

// compare takes all cases through all rounds. log gets a line for each round.
func (b *bench) compare(ctx context.Context, cases []benchCase, log io.Writer) ([]result, error) {
	results := make([]result, len(cases))
	for i, c := range cases {
		results[i] = result{benchCase: c, samples: make([][]sample, len(c.candidates))}
	}
	for round := range b.rounds {
		for i := range results {
			r := &results[i]
			for turn := range r.candidates {
				// Another one begins each round: what the first leaves in caches
				// and heaps meets the second.
				c := (turn + round) % len(r.candidates)
				runtime.GC()
				s, err := r.candidates[c].run(ctx, b)
				if err != nil {
					return nil, fmt.Errorf("%s: %s: %w", r.name, r.candidates[c].name, err)
				}
				r.samples[c] = append(r.samples[c], s)
			}
		}
		fmt.Fprintf(log, "round %d of %d done\n", round+1, b.rounds)
	}
	fmt.Fprintln(log)
	return results, nil
}
