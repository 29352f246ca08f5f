package command

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

var (
	errPartOfCluster = errors.New("the server is part of a Redis Cluster, which must be reached as one: name addresses of the Cluster instead of a URL")
	errNoCluster     = errors.New("the server is not part of a Redis Cluster: name it by its URL instead of addresses of a Cluster")
	errNoSentinel    = errors.New("no Sentinel tells where the master is: check the addresses of the Sentinels, which are not those of the servers, and the master's name")
)

// Probe reaches the Redis and finds out whether it is of the kind that it was
// said to be.
func (s *Streams) Probe(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if s.nodes.cluster != nil {
		return s.probeCluster(ctx)
	}
	return s.probeServer(ctx)
}

func (s *Streams) probeServer(ctx context.Context) error {
	if err := s.Ping(ctx); err != nil {
		return err
	}
	// Where INFO is forbidden or missing, a redirect will tell.
	info, err := s.nodes.single.Info(ctx, "cluster").Result()
	if err == nil && strings.Contains(info, "cluster_enabled:1") {
		return errPartOfCluster
	}
	return nil
}

// probeCluster learns who holds which slots. That some server is away is no
// reason not to begin.
func (s *Streams) probeCluster(ctx context.Context) error {
	_, err := s.nodes.cluster.MasterForKey(ctx, "")
	if err != nil && strings.Contains(err.Error(), "cluster support disabled") {
		return fmt.Errorf("%w: %w", errNoCluster, err)
	}
	return failed(ctx, err)
}

// Ping reaches the server, or every master of the Cluster.
func (s *Streams) Ping(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if s.nodes.cluster == nil {
		err := s.nodes.single.Ping(ctx).Err()
		if err != nil && strings.Contains(err.Error(), "all sentinels") {
			err = fmt.Errorf("%w: %w", errNoSentinel, firstOf(err))
		}
		return failed(ctx, err)
	}
	err := s.nodes.cluster.ForEachMaster(ctx, func(ctx context.Context, c *redis.Client) error {
		return c.Ping(ctx).Err()
	})
	if err != nil {
		s.nodes.cluster.ReloadState(ctx) // a failover may have made others the masters
	}
	return failed(ctx, err)
}
