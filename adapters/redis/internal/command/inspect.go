package command

import (
	"cmp"
	"context"
	"fmt"
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
}

// inspections are the commands that look at one key.
const inspections = 3

// Inspect looks at many keys, each by itself.
// Errors: ErrNotStream, with the key; the first of all others.
func (s *Streams) Inspect(ctx context.Context, keys []string) ([]StreamInfo, error) {
	calls, errs, err := s.each(ctx, inspections*len(keys), func(i int) call {
		key := keys[i/inspections]
		switch i % inspections {
		case 0:
			return call{key: key, args: []any{"xinfo", "stream", key}}
		case 1:
			return call{key: key, args: []any{"xinfo", "groups", key}}
		default:
			return call{key: key, args: []any{"time"}}
		}
	})
	if err != nil {
		return nil, err
	}
	infos := make([]StreamInfo, len(keys))
	for i, key := range keys {
		at := i * inspections
		switch {
		case redis.HasErrorPrefix(calls[at].err, "no such key"), redis.HasErrorPrefix(calls[at+1].err, "no such key"):
			continue
		case redis.HasErrorPrefix(calls[at].err, "WRONGTYPE"):
			return nil, fmt.Errorf("%s: %w", key, ErrNotStream)
		}
		if err := cmp.Or(errs[at : at+inspections]...); err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		if infos[i], err = parseInfo(calls[at].reply, calls[at+1].reply, calls[at+2].reply); err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
	}
	return infos, nil
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
		g := GroupInfo{}
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
