package command

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// StreamInfo is what a server says of the stream under one key.
type StreamInfo struct {
	// Exists is false where there is no such key; nothing else is set then.
	Exists bool
	Length int64
	// EntriesAdded counts the entries ever added, -1 where the server does not.
	EntriesAdded int64
	// FirstID and LastID are those of entries that are there; empty when there are
	// none, or the server does not tell. LastGeneratedID is the highest id ever.
	FirstID, LastID, LastGeneratedID string
	Groups                           []GroupInfo
	// At is the server's own time.
	At time.Time
}

// GroupInfo is what a server says of a consumer group.
type GroupInfo struct {
	Name               string
	Consumers, Pending int64
	LastDeliveredID    string
	// Lag is what the server believes that the group was not given, -1 where it does not
	// know. It may be wrong.
	Lag int64
}

// Look is what was seen of one key. Without Err it is complete.
type Look struct {
	StreamInfo
	// MemoryBytes is -1 where it was not asked for, or is not told.
	MemoryBytes int64
	Err         error
}

// Inspect looks at many keys, each by itself.
// Errors: ErrNotStream, with the key; the first of all others.
func (s *Streams) Inspect(ctx context.Context, keys []string) ([]StreamInfo, error) {
	looks, err := s.LookAt(ctx, keys, false)
	if err != nil {
		return nil, err
	}
	infos := make([]StreamInfo, len(keys))
	for i := range looks {
		if looks[i].Err != nil {
			return nil, looks[i].Err
		}
		infos[i] = looks[i].StreamInfo
	}
	return infos, nil
}

// LookAt looks at many keys, each by itself, with memory also at the memory they
// take. What went wrong with one is in its Look.
// Errors: what kept all of it from being sent.
func (s *Streams) LookAt(ctx context.Context, keys []string, memory bool) ([]Look, error) {
	commands := [][]any{{"xinfo", "stream"}, {"xinfo", "groups"}, {"time"}}
	if memory {
		commands = append(commands, []any{"memory", "usage"})
	}
	n := len(commands)
	calls, errs, err := s.each(ctx, n*len(keys), func(i int) call {
		key, args := keys[i/n], slices.Clone(commands[i%n])
		if len(args) > 1 {
			args = append(args, key)
		}
		return call{key: key, args: args}
	})
	if err != nil {
		return nil, err
	}
	looks := make([]Look, len(keys))
	for i, key := range keys {
		looks[i] = lookOf(calls[i*n:(i+1)*n], errs[i*n:(i+1)*n])
		if looks[i].Err != nil {
			looks[i].Err = fmt.Errorf("%s: %w", key, looks[i].Err)
		}
	}
	return looks, nil
}

// lookOf puts the answers for one key together. The memory is only a number more: a
// user who may not ask for it sees the rest.
func lookOf(calls []*call, errs []error) Look {
	l := Look{MemoryBytes: -1}
	switch {
	case redis.HasErrorPrefix(calls[0].err, "no such key"), redis.HasErrorPrefix(calls[1].err, "no such key"):
		return l
	case redis.HasErrorPrefix(calls[0].err, "WRONGTYPE"):
		l.Err = ErrNotStream
		return l
	}
	if l.Err = cmp.Or(errs[:3]...); l.Err != nil {
		return l
	}
	l.StreamInfo, l.Err = parseInfo(calls[0].reply, calls[1].reply, calls[2].reply)
	if len(calls) > 3 {
		if bytes, ok := calls[3].reply.(int64); ok {
			l.MemoryBytes = bytes
		}
	}
	return l
}

func parseInfo(stream, groups, now any) (StreamInfo, error) {
	fields, ok := pairs(stream)
	list, ok2 := groups.([]any)
	if !ok || !ok2 {
		return StreamInfo{}, errReply(stream)
	}
	info := StreamInfo{Exists: true, EntriesAdded: -1, FirstID: entryID(fields["first-entry"]), LastID: entryID(fields["last-entry"])}
	if info.Length, ok = fields["length"].(int64); !ok {
		return StreamInfo{}, errReply(fields["length"])
	}
	if n, ok := fields["entries-added"].(int64); ok {
		info.EntriesAdded = n
	}
	info.LastGeneratedID, _ = fields["last-generated-id"].(string)
	for _, one := range list {
		fields, ok := pairs(one)
		if !ok {
			return StreamInfo{}, errReply(one)
		}
		g := GroupInfo{Lag: -1}
		if lag, known := fields["lag"].(int64); known {
			g.Lag = lag
		}
		g.Name, _ = fields["name"].(string)
		g.Consumers, _ = fields["consumers"].(int64)
		g.LastDeliveredID, _ = fields["last-delivered-id"].(string)
		if g.Pending, ok = fields["pending"].(int64); !ok {
			return StreamInfo{}, errReply(fields["pending"])
		}
		info.Groups = append(info.Groups, g)
	}
	var err error
	info.At, err = parseTime(now)
	return info, err
}

// pairs reads names and values, which come as a map or as a list, depending on
// the version of the wire protocol.
func pairs(reply any) (map[string]any, bool) {
	fields := map[string]any{}
	switch reply := reply.(type) {
	case map[any]any:
		for name, value := range reply {
			if name, ok := name.(string); ok {
				fields[name] = value
			}
		}
		return fields, true
	case []any:
		for i := 0; i+1 < len(reply); i += 2 {
			if name, ok := reply[i].(string); ok {
				fields[name] = reply[i+1]
			}
		}
		return fields, len(reply)%2 == 0
	}
	return nil, false
}

func entryID(entry any) string {
	parts, _ := entry.([]any)
	if len(parts) == 0 {
		return ""
	}
	id, _ := parts[0].(string)
	return id
}

// parseTime reads the reply of TIME, seconds and microseconds as texts.
func parseTime(reply any) (time.Time, error) {
	parts, _ := reply.([]any)
	if len(parts) != 2 {
		return time.Time{}, errReply(reply)
	}
	var numbers [2]int64
	for i, part := range parts {
		text, _ := part.(string)
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return time.Time{}, errReply(part)
		}
		numbers[i] = n
	}
	return time.Unix(numbers[0], numbers[1]*1000), nil
}
