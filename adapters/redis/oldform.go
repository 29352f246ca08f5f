package redis

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/redis-stream-coordinator/rsc/adapters/redis/internal/command"
	"github.com/redis-stream-coordinator/rsc/core/port"
)

// Programs that came before this one joined prefix and group with a colon and
// encoded nothing, so that one key could stand for several pairs: whoever came
// first had it. A record of theirs has no nonce, and its aggregate says whose
// it is. Every save of ours writes a nonce, so a record with one is where it
// belongs.

// inOldForm reports whether programs of the old form may have to do with how a
// group was loaded: its key may hold the record of another group, and its own
// record may be under its old key.
func (s *Store) inOldForm(key port.GroupKey, r port.GroupRecord) bool {
	keys := s.keys.group(key)
	if r.Version.Revision == 0 {
		return s.keys.oldGroup(key) != keys
	}
	// Without a body it is a record that the caller has loaded before.
	return r.Version.Nonce == "" && r.Body != nil && s.keys.ambiguous(keys.Metadata)
}

// loadFromOldForm moves what is in the wrong place, given what was found at the
// group's key, and loads the group again. It does so even when there was
// nothing to move: another coordinator may have moved the record after we
// looked at its new key and before we looked at the old one.
func (s *Store) loadFromOldForm(ctx context.Context, key port.GroupKey, known port.Version, r port.GroupRecord) (port.GroupRecord, error) {
	keys, old := s.keys.group(key), s.keys.oldGroup(key)
	if r.Version.Revision != 0 {
		names, err := namesInside(keys, r.Body)
		if err != nil || names == key {
			return r, err
		}
		if err := s.move(ctx, keys, names); err != nil {
			return port.GroupRecord{}, err
		}
	}
	if old != keys {
		names, found, err := s.loadOld(ctx, old)
		if err == nil && found && names == key {
			err = s.move(ctx, old, key)
		}
		if err != nil {
			return port.GroupRecord{}, err
		}
	}
	r, err := s.cmd.LoadGroup(ctx, keys, known)
	if err != nil || r.Version.Revision == 0 || !s.inOldForm(key, r) {
		return r, err
	}
	names, err := namesInside(keys, r.Body)
	if err == nil && names != key {
		err = fmt.Errorf("a program of the old form writes the record of group %s to its key", names)
	}
	return r, err
}

// loadOld reads whose record of the old form is under these keys.
func (s *Store) loadOld(ctx context.Context, keys command.GroupKeys) (names port.GroupKey, found bool, err error) {
	r, err := s.cmd.LoadGroup(ctx, keys, port.Version{})
	if err != nil || r.Version.Revision == 0 || r.Version.Nonce != "" {
		return port.GroupKey{}, false, err
	}
	names, err = namesInside(keys, r.Body)
	return names, err == nil, err
}

// oldNames returns whose record a metadata key without a nonce holds: key, which
// is how the name reads, unless another name is inside.
func (s *Store) oldNames(ctx context.Context, metadata string, key port.GroupKey) (port.GroupKey, error) {
	tag, _ := s.keys.tag(metadata, metadataSuffix)
	names, found, err := s.loadOld(ctx, s.keys.tagged(tag))
	switch {
	case command.IsDamage(err):
		return key, nil // whoever loads it is told
	case err != nil:
		return port.GroupKey{}, err
	case !found:
		return key, nil
	}
	return names, nil
}

// move gives a record of the old form the key that it has in ours. The two keys
// are in different slots, so this is three steps, any of which may be the last:
// until the old key is gone the new one wins, and the next load finishes it.
//
// Two coordinators may do it at once: the new key is written once only, and
// from then on each save is made on it. (A coordinator that stands still after
// it read the old key, until another has moved the record and the group was
// deleted, brings that group back once; it is then deleted again.)
func (s *Store) move(ctx context.Context, from command.GroupKeys, key port.GroupKey) error {
	to := s.keys.group(key)
	fields, err := s.cmd.ReadHash(ctx, from.Metadata)
	if err != nil {
		return err
	}
	if len(fields) != 0 { // else somebody else was faster
		fields["nonce"] = rand.Text()
		if err := s.cmd.Index(ctx, s.keys.groups(), to.Metadata); err != nil {
			return err
		}
		if _, err := s.cmd.CreateHash(ctx, to.Metadata, fields); err != nil {
			return err
		}
		s.indexAgain(ctx, s.keys.groups(), to.Metadata)
	}
	s.log.InfoContext(ctx, "moved a group from a key of the old form", "stream", key.Stream, "group", key.Group, "from", from.Metadata, "to", to.Metadata)
	return s.dropOld(ctx, from)
}

// removeOld removes what a move that was interrupted has left of a group that
// is to be deleted: it would come back.
func (s *Store) removeOld(ctx context.Context, key port.GroupKey) error {
	old := s.keys.oldGroup(key)
	if old == s.keys.group(key) {
		return nil
	}
	names, found, err := s.loadOld(ctx, old)
	if command.IsDamage(err) {
		return nil // not known to be of this group
	}
	if err != nil || !found || names != key {
		return err
	}
	return s.dropOld(ctx, old)
}

// dropOld deletes a record of the old form, if it still is one.
func (s *Store) dropOld(ctx context.Context, keys command.GroupKeys) error {
	r, err := s.cmd.LoadGroup(ctx, keys, port.Version{})
	if err != nil {
		return err
	}
	if r.Version.Revision != 0 && r.Version.Nonce == "" {
		err := s.cmd.DeleteGroup(ctx, keys, r.Version, command.Announcement{})
		if err != nil && !errors.Is(err, port.ErrConflict) {
			return err
		}
	}
	s.unindex(ctx, s.keys.groups(), keys.Metadata)
	return nil
}

// namesInside reads from an aggregate of the old form whose it is.
func namesInside(keys command.GroupKeys, aggregate []byte) (port.GroupKey, error) {
	var names struct {
		Stream string `json:"streamPrefix"`
		Group  string `json:"consumerGroup"`
	}
	err := json.Unmarshal(aggregate, &names)
	if err == nil && (names.Stream == "" || names.Group == "") {
		err = errors.New("streamPrefix or consumerGroup is missing")
	}
	if err != nil {
		return port.GroupKey{}, &command.DamageError{Key: keys.Metadata, Problem: fmt.Sprintf("does not say whose it is: %v", err)}
	}
	return port.GroupKey{Stream: names.Stream, Group: names.Group}, nil
}
