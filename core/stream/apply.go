package stream

import (
	"slices"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/internal/rules"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// Input is what a decision may depend on besides state and command.
type Input struct {
	// Now is the wall time, for records that people read.
	Now time.Time
	// RoutesOver is the switch of routes since which the longest routing lease has
	// passed on the clock of the coordinator that acts, 0 for none; see Clock.
	RoutesOver int64
	// Look asks to look for shards beyond those that are known, now and then.
	Look bool
	// Rules switches rules off, in tests only.
	Rules rules.Set
}

// Command is something to be done to a stream.
type Command interface{ isCommand() }

// Create makes the stream.
type Create struct {
	Prefix           string
	ShardCount       int
	AutoCreateGroups bool
	GroupStart       protocol.GroupStart
	RoutingLease     time.Duration
}

// Import makes the record of a stream whose groups were created by an earlier
// implementation, which kept none.
type Import struct {
	Prefix       string
	ShardCount   int
	Groups       []string
	RoutingLease time.Duration
}

// EnsureGroup makes a group, or leaves the one that exists.
type EnsureGroup struct {
	Name string
	// ByJoin is true when a member's join asks for it: then the stream must
	// allow it, and a deleted group stays deleted.
	ByJoin bool
	// Found is true when its aggregate was found, and the stream does not know it: the
	// write that created it is lost, with a server that the group does not lie on. A deleted
	// group stays deleted.
	Found bool
	// New demands that the group does not exist yet.
	New bool
	// ShardCount, if not 0, must be the stream's.
	ShardCount int
}

// Provisioned notes that the shards exist.
type Provisioned struct{}

// GroupCreated notes that a group's consumer groups and aggregate exist. Which version
// of the record that follows is found out by Adopted. Since says which group of that name
// it was, by CreatedAt in milliseconds; 0 is any.
type GroupCreated struct {
	Name  string
	Since int64
}

// DeleteGroup begins to delete a group.
type DeleteGroup struct {
	Name       string
	Force      bool
	DeleteData bool
}

// KeepGroup ends a deletion that was refused: the group has live members. It comes too
// late where somebody else has found none.
type KeepGroup struct{ Name string }

// DeleteFinally notes that a group to be deleted has no live members. Only after that is
// anything of it deleted.
type DeleteFinally struct{ Name string }

// GroupDeleted notes that a group's aggregate is gone. Held is true when members
// may have been reading.
type GroupDeleted struct {
	Name string
	Held bool
}

// Delete begins to delete the stream.
type Delete struct{ DeleteData bool }

// AnnounceLease notes that producers will be told a routing lease.
type AnnounceLease struct{ Lease time.Duration }

func (Create) isCommand()        {}
func (Import) isCommand()        {}
func (EnsureGroup) isCommand()   {}
func (Provisioned) isCommand()   {}
func (GroupCreated) isCommand()  {}
func (DeleteGroup) isCommand()   {}
func (KeepGroup) isCommand()     {}
func (DeleteFinally) isCommand() {}
func (GroupDeleted) isCommand()  {}
func (Delete) isCommand()        {}
func (AnnounceLease) isCommand() {}

// Event is something that happened to a stream.
type Event interface{ isEvent() }

// Created: a stream was made.
type Created struct {
	Prefix     string
	ShardCount int
}

// Deleting: a stream is being deleted.
type Deleting struct {
	Prefix     string
	DeleteData bool
}

// GroupChanged: a group came to a phase; Phase is empty once it is deleted.
type GroupChanged struct {
	Prefix, Group string
	Phase         GroupPhase
}

func (Created) isEvent()      {}
func (Deleting) isEvent()     {}
func (GroupChanged) isEvent() {}

// Response is what Apply answers.
type Response struct {
	// Changed is false when there is nothing to save.
	Changed bool
}

// Apply carries out cmd on s. It returns the next state, whether it differs,
// and what happened. On an error s is returned unchanged.
// Errors: *protocol.Error, for the caller.
func Apply(s State, in Input, cmd Command) (State, Response, []Event, error) {
	if err := allowed(&s, cmd); err != nil {
		return s, Response{}, nil, err
	}
	next := s
	next.Groups = slices.Clone(s.Groups)
	next.Deleted = slices.Clone(s.Deleted)
	next.Held = slices.Clone(s.Held)
	next.Proofs = slices.Clone(s.Proofs)
	next.Ignored = slices.Clone(s.Ignored)
	next.Migrations = slices.Clone(s.Migrations)
	events, changed, err := next.apply(in, cmd)
	if err != nil || !changed {
		return s, Response{}, nil, err
	}
	next.UpdatedAt = in.Now
	return next, Response{Changed: true}, events, nil
}

// ApplyAll carries out commands, one after the other, as Apply does. An error of one of
// them leaves s as it is.
func ApplyAll(s State, in Input, cmds ...Command) (State, Response, []Event, error) {
	next, resp := s, Response{}
	var events []Event
	for _, cmd := range cmds {
		after, r, told, err := Apply(next, in, cmd)
		if err != nil {
			return s, Response{}, nil, err
		}
		next, resp.Changed, events = after, resp.Changed || r.Changed, append(events, told...)
	}
	return next, resp, events, nil
}

// allowed refuses what no command but Create may do to a stream that does not
// exist or is being deleted.
func allowed(s *State, cmd Command) error {
	_, create := cmd.(Create)
	if _, imports := cmd.(Import); imports {
		// A record that is there already is the newer truth.
		return nil
	}
	switch {
	case create && s.Exists() && s.Removal != nil:
		return protocol.ErrStreamExists.With("stream %q is being deleted: repeat the request when it is gone", s.Prefix)
	case create && s.Exists():
		return protocol.ErrStreamExists.With("stream %q exists already, with %d shards", s.Prefix, s.ShardCount)
	case create:
		return nil
	case !s.Exists():
		return protocol.ErrStreamNotFound
	}
	if _, again := cmd.(Delete); s.Removal != nil && !again {
		return protocol.ErrStreamNotFound.With("stream %q is being deleted", s.Prefix)
	}
	return nil
}

func (s *State) apply(in Input, cmd Command) ([]Event, bool, error) {
	switch cmd := cmd.(type) {
	case Create:
		*s = State{
			Prefix: cmd.Prefix, Version: in.Now.UnixMilli(), Switched: in.Now.UnixMilli(),
			ShardCount: cmd.ShardCount, ReadCount: cmd.ShardCount, HighestCount: cmd.ShardCount,
			AutoCreateGroups: cmd.AutoCreateGroups, GroupStart: cmd.GroupStart, RoutingLease: wholeMs(cmd.RoutingLease),
			CreatedAt: in.Now,
		}
		return []Event{Created{s.Prefix, s.ShardCount}}, true, nil
	case Import:
		return s.importGroups(in, cmd)
	case Provisioned:
		changed := !s.Provisioned
		s.Provisioned = true
		return nil, changed, nil
	case EnsureGroup:
		return s.ensureGroup(in, cmd)
	case GroupCreated:
		if i, found := s.find(cmd.Name); found && cmd.Since != 0 && s.Groups[i].CreatedAt.UnixMilli() != cmd.Since {
			// That one was deleted meanwhile, and the next is yet to be created.
			return nil, false, nil
		}
		return s.phase(cmd.Name, GroupCreating, GroupLive)
	case DeleteGroup:
		return s.deleteGroup(cmd)
	case KeepGroup:
		return s.keepGroup(cmd)
	case DeleteFinally:
		return s.deleteFinally(cmd)
	case GroupDeleted:
		return s.groupDeleted(cmd)
	case Delete:
		if len(s.Groups) > 0 {
			return nil, false, protocol.ErrStreamHasGroups.With("stream %q still has %d groups, %q among them: delete them first",
				s.Prefix, len(s.Groups), s.Groups[0].Name)
		}
		if s.Removal != nil {
			return nil, false, nil
		}
		s.Removal = &Removal{DeleteData: cmd.DeleteData}
		return []Event{Deleting{s.Prefix, cmd.DeleteData}}, true, nil
	case AnnounceLease:
		changed := cmd.Lease > s.RoutingLease
		s.RoutingLease = max(s.RoutingLease, wholeMs(cmd.Lease))
		return nil, changed, nil
	}
	return s.reshard(in, cmd)
}

// wholeMs rounds a time up to what a record can hold.
func wholeMs(d time.Duration) time.Duration {
	return (d + time.Millisecond - 1).Truncate(time.Millisecond)
}

func (s *State) importGroups(in Input, cmd Import) ([]Event, bool, error) {
	switch {
	case s.Exists():
		return nil, false, nil
	case len(cmd.Groups) > protocol.MaxGroups:
		return nil, false, protocol.ErrLimit.With("stream %q has %d groups, more than %d are not allowed: delete some", cmd.Prefix, len(cmd.Groups), protocol.MaxGroups)
	}
	*s = State{
		Prefix: cmd.Prefix, Version: in.Now.UnixMilli(), Switched: in.Now.UnixMilli(),
		ShardCount: cmd.ShardCount, ReadCount: cmd.ShardCount, HighestCount: cmd.ShardCount,
		AutoCreateGroups: true, GroupStart: protocol.StartEarliest, RoutingLease: wholeMs(cmd.RoutingLease), CreatedAt: in.Now,
	}
	for _, name := range slices.Sorted(slices.Values(cmd.Groups)) {
		s.Groups = append(s.Groups, Group{Name: name, Phase: GroupLive, CreatedAt: in.Now})
	}
	return []Event{Created{s.Prefix, s.ShardCount}}, true, nil
}

func (s *State) ensureGroup(in Input, cmd EnsureGroup) ([]Event, bool, error) {
	if cmd.ShardCount != 0 && cmd.ShardCount != s.ShardCount {
		return nil, false, protocol.ErrShardCountMismatch.With("initialShardCount: is %d, but stream %q has %d shards: leave it out, or scale the stream",
			cmd.ShardCount, s.Prefix, s.ShardCount)
	}
	i, found := s.find(cmd.Name)
	if found {
		switch {
		case s.Groups[i].Phase == GroupDeleting && cmd.New:
			return nil, false, protocol.ErrGroupExists.With("group %q of stream %q is being deleted: repeat the request when it is gone", cmd.Name, s.Prefix)
		case s.Groups[i].Phase == GroupDeleting:
			return nil, false, protocol.ErrGroupNotFound.With("group %q is being deleted", cmd.Name)
		case cmd.New && s.Groups[i].Phase == GroupLive:
			return nil, false, protocol.ErrGroupExists.With("group %q of stream %q exists already", cmd.Name, s.Prefix)
		}
		return nil, false, nil
	}
	deleted := slices.Index(s.Deleted, cmd.Name)
	if cmd.Found && deleted >= 0 {
		return nil, false, nil
	}
	if cmd.ByJoin {
		switch {
		case !s.AutoCreateGroups:
			return nil, false, protocol.ErrGroupNotFound.With("stream %q does not create groups by itself: create group %q first", s.Prefix, cmd.Name)
		case deleted >= 0:
			return nil, false, protocol.ErrGroupNotFound.With("group %q was deleted: create it again if members are to join", cmd.Name)
		}
	}
	if len(s.Groups) >= protocol.MaxGroups {
		return nil, false, protocol.ErrLimit.With("stream %q has %d groups, more are not allowed: delete one", s.Prefix, len(s.Groups))
	}
	if deleted >= 0 {
		s.Deleted = slices.Delete(s.Deleted, deleted, deleted+1)
	}
	// It has readers now, so what it has not read is waited for.
	if i, ignored := slices.BinarySearch(s.Ignored, cmd.Name); ignored {
		s.Ignored = slices.Delete(s.Ignored, i, i+1)
	}
	again := slices.Index(s.Held, cmd.Name)
	if again >= 0 {
		s.Held = slices.Delete(s.Held, again, again+1)
	}
	s.Groups = slices.Insert(s.Groups, i, Group{Name: cmd.Name, Phase: GroupCreating, Again: again >= 0, CreatedAt: in.Now})
	return []Event{GroupChanged{s.Prefix, cmd.Name, GroupCreating}}, true, nil
}

// phase moves a group from one phase to the next; from any other nothing
// happens, so that a step that was taken twice is noted once.
func (s *State) phase(name string, from, to GroupPhase) ([]Event, bool, error) {
	i, found := s.find(name)
	if !found || s.Groups[i].Phase != from {
		return nil, false, nil
	}
	g := &s.Groups[i]
	g.Phase, g.Force, g.Final, g.DeleteData, g.Again = to, false, false, false, false
	return []Event{GroupChanged{s.Prefix, name, to}}, true, nil
}

func (s *State) deleteGroup(cmd DeleteGroup) ([]Event, bool, error) {
	i, found := s.find(cmd.Name)
	if !found {
		return nil, false, protocol.ErrGroupNotFound.With("stream %q has no group %q", s.Prefix, cmd.Name)
	}
	g := &s.Groups[i]
	// By force stays by force: something may be gone already.
	force := cmd.Force || g.Phase == GroupDeleting && g.Force
	if g.Phase == GroupDeleting && g.Force == force && g.DeleteData == cmd.DeleteData {
		return nil, false, nil
	}
	g.Phase, g.Force, g.DeleteData = GroupDeleting, force, cmd.DeleteData
	return []Event{GroupChanged{s.Prefix, cmd.Name, GroupDeleting}}, true, nil
}

func (s *State) keepGroup(cmd KeepGroup) ([]Event, bool, error) {
	if i, found := s.find(cmd.Name); found && s.Groups[i].goes() {
		return nil, false, nil
	}
	return s.phase(cmd.Name, GroupDeleting, GroupLive)
}

func (s *State) deleteFinally(cmd DeleteFinally) ([]Event, bool, error) {
	i, found := s.find(cmd.Name)
	if !found || s.Groups[i].Phase != GroupDeleting || s.Groups[i].goes() {
		return nil, false, nil
	}
	s.Groups[i].Final = true
	return nil, true, nil
}

// goes reports whether the group is being deleted, whoever is in it.
func (g *Group) goes() bool { return g.Phase == GroupDeleting && (g.Force || g.Final) }

// Goes reports whether a group is being deleted, and nothing takes that back any more.
func (s *State) Goes(name string) bool {
	i, found := s.find(name)
	return found && s.Groups[i].goes()
}

// Unwanted reports whether nothing is to be left of a group that was just created: there
// is none of that name, or it goes. Of one that has been confirmed it says nothing: the
// stream may have lost the write that created it.
func (s *State) Unwanted(name string) bool {
	_, found := s.find(name)
	return !found || s.Goes(name)
}

func (s *State) groupDeleted(cmd GroupDeleted) ([]Event, bool, error) {
	name := cmd.Name
	i, found := s.find(name)
	if !found || !s.Groups[i].goes() {
		return nil, false, nil
	}
	s.Groups = slices.Delete(s.Groups, i, i+1)
	s.Deleted = append(s.Deleted, name)
	if len(s.Deleted) > maxDeleted {
		s.Deleted = s.Deleted[len(s.Deleted)-maxDeleted:]
	}
	if cmd.Held {
		s.Held = append(s.Held, name)
	}
	s.Held = slices.DeleteFunc(s.Held, func(name string) bool { return !slices.Contains(s.Deleted, name) })
	return []Event{GroupChanged{s.Prefix, name, ""}}, true, nil
}
