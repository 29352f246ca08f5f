package redis

import (
	"context"
	"fmt"

	"github.com/redis-stream-coordinator/rsc/adapters/redis/internal/command"
	"github.com/redis-stream-coordinator/rsc/core/port"
)

var _ port.Signal = (*Store)(nil)

// announce says what a save does to a group, to whoever listens: the revision and
// the nonce that it writes, 0 and none for a deletion, and the group's key.
func (s *Store) announce(keys command.GroupKeys, revision int64, nonce string) command.Announcement {
	return command.Announcement{
		Channel: s.keys.changes(),
		Text:    fmt.Sprintf("%d %q %q", revision, nonce, keys.Metadata),
	}
}

// heard reads an announcement.
func (s *Store) heard(text string) (port.Change, bool) {
	var revision int64
	var nonce, key string
	if _, err := fmt.Sscanf(text, "%d %q %q", &revision, &nonce, &key); err != nil {
		return port.Change{}, false
	}
	group, ok := s.keys.parseGroup(key)
	return port.Change{Key: group, Revision: revision, Nonce: nonce}, ok
}

// Watch implements port.Signal. What it cannot make sense of may be of a newer
// program: then anything may have changed.
func (s *Store) Watch(ctx context.Context, changed func(port.Change)) {
	channel := s.keys.changes()
	s.cmd.Listen(ctx, channel, func(h command.Heard) {
		change, ok := s.heard(h.Text)
		if !ok {
			change = port.Change{Any: true}
		}
		changed(change)
	}, func(err error) {
		if err == nil {
			s.log.InfoContext(ctx, "changes by other coordinators are heard again", "channel", channel)
			return
		}
		s.log.WarnContext(ctx, "changes by other coordinators are not heard, and seen at the next tick only", "channel", channel, "err", err)
	})
}

// muted is told that the server lets us save and not announce.
func (s *Store) muted(channel string) {
	s.log.Warn("changes cannot be announced, other coordinators see them at their next tick only: allow PUBLISH on the channel", "channel", channel)
}
