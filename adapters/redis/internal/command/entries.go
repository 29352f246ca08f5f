package command

import (
	"cmp"
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// Entry is one entry of a stream: its fields, in order, names and values by
// turns.
type Entry struct {
	ID     string
	Fields []string
}

// Size returns the bytes of all names and values.
func (e Entry) Size() int {
	n := 0
	for _, f := range e.Fields {
		n += len(f)
	}
	return n
}

// Span asks for entries of one key: those from From to To, ids as XRANGE takes
// them, at most Count; with Reverse from To down to From.
type Span struct {
	Key, From, To string
	Count         int
	Reverse       bool
}

// Ranges returns the entries of each span, none for a key that does not exist.
// Errors: ErrNotStream, with the key; the first of all others.
func (s *Streams) Ranges(ctx context.Context, spans []Span) ([][]Entry, error) {
	calls, errs, err := s.each(ctx, len(spans), func(i int) call {
		span := spans[i]
		if span.Reverse {
			return call{key: span.Key, args: []any{"xrevrange", span.Key, span.To, span.From, "count", span.Count}}
		}
		return call{key: span.Key, args: []any{"xrange", span.Key, span.From, span.To, "count", span.Count}}
	})
	if err != nil {
		return nil, err
	}
	ranges := make([][]Entry, len(spans))
	for i, c := range calls {
		if redis.HasErrorPrefix(c.err, "WRONGTYPE") {
			return nil, fmt.Errorf("%s: %w", spans[i].Key, ErrNotStream)
		}
		if errs[i] != nil {
			return nil, fmt.Errorf("%s: %w", spans[i].Key, errs[i])
		}
		if ranges[i], err = parseEntries(c.reply); err != nil {
			return nil, fmt.Errorf("%s: %w", spans[i].Key, err)
		}
	}
	return ranges, nil
}

func parseEntries(reply any) ([]Entry, error) {
	list, ok := reply.([]any)
	if !ok {
		return nil, errReply(reply)
	}
	entries := make([]Entry, len(list))
	for i, one := range list {
		parts, _ := one.([]any)
		if len(parts) != 2 {
			return nil, errReply(one)
		}
		fields, ok := parts[1].([]any)
		if entries[i].ID, _ = parts[0].(string); entries[i].ID == "" || !ok || len(fields)%2 != 0 {
			return nil, errReply(one)
		}
		entries[i].Fields = make([]string, len(fields))
		for j, field := range fields {
			if entries[i].Fields[j], ok = field.(string); !ok {
				return nil, errReply(field)
			}
		}
	}
	return entries, nil
}

// Delete removes entries and returns how many were there. After trouble it may
// be sent again, so the number may miss some.
func (s *Streams) Delete(ctx context.Context, key string, ids []string) (int64, error) {
	args := append(make([]any, 0, 2+len(ids)), "xdel", key)
	for _, id := range ids {
		args = append(args, id)
	}
	calls, errs, err := s.each(ctx, 1, func(int) call { return call{key: key, args: args} })
	if err := cmp.Or(err, cmp.Or(errs...)); err != nil {
		return 0, err
	}
	n, ok := calls[0].reply.(int64)
	if !ok {
		return 0, errReply(calls[0].reply)
	}
	return n, nil
}
