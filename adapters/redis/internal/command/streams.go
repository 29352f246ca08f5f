package command

import (
	"cmp"
	"context"
	"errors"

	"github.com/redis/go-redis/v9"
)

// ErrNotStream: the key holds something that is not a stream.
var ErrNotStream = errors.New("the key holds something else than a stream")

// Consumer groups are created at one of these ids.
const (
	FromOldest = "0"
	FromNewest = "$"
)

// Streams sends commands on the keys of streams, each to the server that holds
// the key. It is safe for concurrent use.
type Streams struct {
	nodes *nodes
}

// Close closes all connections.
func (s *Streams) Close() error { return s.nodes.close() }

// each carries out one command on each of n keys. The errors are those of the
// calls, nil for those that were carried out; err is for all, when none was sent.
func (s *Streams) each(ctx context.Context, n int, command func(i int) call) (calls []*call, errs []error, err error) {
	all := make([]call, n)
	calls = make([]*call, n)
	for i := range all {
		all[i] = command(i)
		calls[i] = &all[i]
	}
	if err := s.nodes.run(ctx, calls); err != nil {
		return nil, nil, err
	}
	errs = make([]error, n)
	for i, c := range calls {
		errs[i] = s.nodes.outcome(ctx, c)
	}
	return calls, errs, nil
}

// KeyTypes returns the types of keys, "none" for one that does not exist.
func (s *Streams) KeyTypes(ctx context.Context, keys []string) ([]string, error) {
	calls, errs, err := s.each(ctx, len(keys), func(i int) call {
		return call{key: keys[i], args: []any{"type", keys[i]}}
	})
	if err := cmp.Or(err, cmp.Or(errs...)); err != nil {
		return nil, err
	}
	types := make([]string, len(keys))
	for i, c := range calls {
		kind, ok := c.reply.(string)
		if !ok {
			return nil, errReply(c.reply)
		}
		types[i] = kind
	}
	return types, nil
}

// StreamGroup is a consumer group on one stream.
type StreamGroup struct {
	Stream, Group string
}

// CreateGroups creates consumer groups that begin at start, and their streams,
// where they are missing. errs has the answer to each, nil for one that exists
// now, ErrNotStream among them; err is for all, when none was sent.
func (s *Streams) CreateGroups(ctx context.Context, groups []StreamGroup, start string) (errs []error, err error) {
	calls, errs, err := s.each(ctx, len(groups), func(i int) call {
		g := groups[i]
		return call{key: g.Stream, args: []any{"xgroup", "create", g.Stream, g.Group, start, "mkstream"}}
	})
	for i, c := range calls {
		switch {
		case redis.HasErrorPrefix(c.err, "BUSYGROUP"):
			errs[i] = nil
		case redis.HasErrorPrefix(c.err, "WRONGTYPE"):
			errs[i] = ErrNotStream
		}
	}
	return errs, err
}

// CreateStreams creates empty streams without any group where there is no such
// key. The results are those of CreateGroups.
func (s *Streams) CreateStreams(ctx context.Context, streams []string) (errs []error, err error) {
	calls, errs, err := s.each(ctx, len(streams), func(i int) call {
		return call{
			key: streams[i], args: []any{"eval", shardCreateText, 1, streams[i]},
			needs: "+exists +type +xgroup|create +xgroup|destroy",
		}
	})
	for i, c := range calls {
		if errs[i] == nil && c.reply != "stream" {
			errs[i] = ErrNotStream
		}
	}
	return errs, err
}

// RemoveStreams deletes those of the keys that are streams. It returns the
// first error.
func (s *Streams) RemoveStreams(ctx context.Context, keys []string) error {
	return s.evalEach(ctx, shardRemoveText, "+type +unlink", keys)
}

// RemoveGroup deletes the consumer group on those of the keys that are streams.
// It returns the first error.
func (s *Streams) RemoveGroup(ctx context.Context, keys []string, group string) error {
	return s.evalEach(ctx, shardRemoveGroupText, "+type +xgroup|destroy", keys, group)
}

// evalEach runs a short script that removes something on each key by itself. It
// is not repeated when its answer is lost, as something new may be there by then.
// It is sent as text: in a pipeline there is no second chance for a server that
// does not know it.
func (s *Streams) evalEach(ctx context.Context, text, needs string, keys []string, args ...any) error {
	_, errs, err := s.each(ctx, len(keys), func(i int) call {
		return call{key: keys[i], args: append([]any{"eval", text, 1, keys[i]}, args...), needs: needs, once: true}
	})
	return cmp.Or(err, cmp.Or(errs...))
}
