package stream

import (
	"slices"

	"github.com/redis-stream-coordinator/rsc/core/internal/rules"
	"github.com/redis-stream-coordinator/rsc/core/internal/spans"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// Scale begins to change the shard count. With the target of the change that is under
// way it leaves that as it is; one that is still being prepared is replaced.
type Scale struct {
	// ID names the change; fresh.
	ID                  string
	To                  int
	RequestedBy, Reason string
}

// Activate notes that the shards to come exist, with the named groups on them, and
// sends the producers there.
type Activate struct {
	ID     string
	Groups []string
}

// BeginDrain notes that nobody writes to the removed shards any more: since the switch
// of that version, the longest routing lease has passed.
type BeginDrain struct {
	ID       string
	Switched int64
}

// Prove notes removed shards that were found empty. Groups read them no more.
type Prove struct{ Proofs []Proof }

// Retire notes what became of shards that were to be removed.
type Retire struct {
	// Gone are gone, Kept were not what their proofs say: they are read on.
	Gone, Kept []int
}

// Adopted notes that a group follows a version of the record.
type Adopted struct {
	Name    string
	Version int64
}

// GroupWentBack notes that the last writes of a group may be lost, what it had adopted
// among them.
type GroupWentBack struct{ Name string }

// WentBack notes that somebody has seen a version, or follows one, which the record does
// not know: the last writes of the record are lost. Groups may read other shards than it
// says, and producers may have written to some that it knows nothing of.
type WentBack struct {
	Version int64
	// HighestCount is the highest shard count that was seen.
	HighestCount int
}

// Rollback begins to take a change back.
type Rollback struct{ ID string }

// RolledBack notes that the shards to go back to exist, with the named groups on them,
// and sends the producers back.
type RolledBack struct {
	ID     string
	Groups []string
}

// FoundStrays notes shards that exist beyond those that are known: somebody who was
// slow has created them late.
type FoundStrays struct{ Shards []int }

// IgnoreGroup has no drain wait for a consumer group that is not one of ours.
type IgnoreGroup struct{ Name string }

// GiveUp has removed shards go with what they hold.
type GiveUp struct{ Shards []int }

func (Scale) isCommand()         {}
func (Activate) isCommand()      {}
func (BeginDrain) isCommand()    {}
func (Prove) isCommand()         {}
func (Retire) isCommand()        {}
func (Adopted) isCommand()       {}
func (GroupWentBack) isCommand() {}
func (WentBack) isCommand()      {}
func (Rollback) isCommand()      {}
func (RolledBack) isCommand()    {}
func (FoundStrays) isCommand()   {}
func (IgnoreGroup) isCommand()   {}
func (GiveUp) isCommand()        {}

// Resharding: a change of the shard count came to a state.
type Resharding struct {
	Prefix, ID string
	From, To   int
	State      protocol.MigrationState
}

// ShardsRetired: shards are gone.
type ShardsRetired struct {
	Prefix string
	Shards []int
}

// StraysFound: shards were found beyond those that are known.
type StraysFound struct {
	Prefix string
	Shards []int
}

// WritesLost: a version of the record was seen that the record does not know.
type WritesLost struct {
	Prefix        string
	Version, Seen int64
}

// GroupIgnored: drains do not wait for a consumer group any more.
type GroupIgnored struct{ Prefix, Group string }

// ShardsGivenUp: shards are to go with what they hold.
type ShardsGivenUp struct {
	Prefix string
	Shards []int
}

func (Resharding) isEvent()    {}
func (ShardsRetired) isEvent() {}
func (StraysFound) isEvent()   {}
func (WritesLost) isEvent()    {}
func (GroupIgnored) isEvent()  {}
func (ShardsGivenUp) isEvent() {}

// reshard carries out the commands of this file.
func (s *State) reshard(in Input, cmd Command) ([]Event, bool, error) {
	switch cmd := cmd.(type) {
	case Scale:
		return s.scale(in, cmd)
	case Activate:
		return s.activate(in, cmd)
	case BeginDrain:
		return s.beginDrain(in, cmd)
	case Prove:
		return s.prove(in, cmd)
	case Retire:
		return s.retire(in, cmd)
	case Adopted:
		return s.adopted(cmd)
	case GroupWentBack:
		return s.groupWentBack(cmd)
	case WentBack:
		return s.wentBack(in, cmd)
	case Rollback:
		return s.rollback(in, cmd)
	case RolledBack:
		return s.rolledBack(in, cmd)
	case FoundStrays:
		return s.strays(in, cmd)
	case IgnoreGroup:
		return s.ignore(cmd)
	case GiveUp:
		return s.giveUp(cmd)
	}
	return nil, false, protocol.ErrInvalidRequest.With("unknown command %T", cmd)
}

// turn brings a change to a state.
func (s *State) turn(in Input, m *Migration, to protocol.MigrationState) Event {
	m.State, m.UpdatedAt = to, in.Now
	return Resharding{s.Prefix, m.ID, m.From, m.To, to}
}

// news gives the record another version, because producers or groups are told
// something else.
func (s *State) news(in Input) { s.Version = max(s.Version+1, in.Now.UnixMilli()) }

func (s *State) scale(in Input, cmd Scale) ([]Event, bool, error) {
	var events []Event
	m, open := s.Migrating()
	switch {
	case !s.Provisioned:
		return nil, false, protocol.ErrProvisioning.With("the shards of stream %q do not all exist yet: repeat the request when they do", s.Prefix)
	case open && m.To == cmd.To && m.State != protocol.MigrationRollingBack:
		// The same request again: its answer was lost, or it could not be prepared.
		return nil, false, nil
	case open && m.State != protocol.MigrationPreparing:
		return nil, false, protocol.ErrMigrationActive.With("stream %q is being changed from %d to %d shards (%s, %s): wait for it, or roll it back",
			s.Prefix, m.From, m.To, m.ID, m.State)
	case open:
		events = append(events, s.turn(in, m, protocol.MigrationRolledBack))
	}
	if cmd.To == s.ShardCount {
		return events, open, nil
	}
	s.Migrations = append(s.Migrations, Migration{
		ID: cmd.ID, From: s.ShardCount, To: cmd.To, RequestedBy: cmd.RequestedBy, Reason: cmd.Reason, CreatedAt: in.Now,
	})
	s.Migrations = s.Migrations[max(0, len(s.Migrations)-maxMigrations):]
	s.HighestCount = max(s.HighestCount, cmd.To)
	// What was to be removed may be among what is to come.
	s.reopen(in)
	m = &s.Migrations[len(s.Migrations)-1]
	events = append(events, s.turn(in, m, protocol.MigrationPreparing))
	if in.Rules.Off(rules.ShardsBeforeRoutes) {
		events = append(events, s.turn(in, m, protocol.MigrationActive))
		s.route(in, cmd.To)
	}
	return events, true, nil
}

// reopen has groups read again what was found empty.
func (s *State) reopen(in Input) {
	if len(s.Proofs) > 0 {
		s.Proofs = nil
		s.news(in)
	}
}

// everyGroup reports whether all groups of the stream are among those named.
func (s *State) everyGroup(named []string) bool {
	return !slices.ContainsFunc(s.Groups, func(g Group) bool {
		return g.Phase != GroupDeleting && !slices.Contains(named, g.Name)
	})
}

func (s *State) activate(in Input, cmd Activate) ([]Event, bool, error) {
	m, open := s.Migrating()
	if !open || m.ID != cmd.ID || m.State != protocol.MigrationPreparing || !s.everyGroup(cmd.Groups) {
		return nil, false, nil
	}
	event := s.turn(in, m, protocol.MigrationActive)
	s.route(in, m.To)
	return []Event{event}, true, nil
}

// route sends producers to another number of shards. What they wrote to before is
// read until it is empty.
func (s *State) route(in Input, count int) {
	s.ReadCount = max(s.ReadCount, s.ShardCount, count)
	s.ShardCount = count
	if in.Rules.On(rules.VersionWithCount) {
		s.news(in)
	}
	s.Switched = s.Version
	s.Retired = s.Retired.Within(count, s.ReadCount)
	s.GivenUp = s.GivenUp.Within(count, s.ReadCount)
	s.Proofs = nil
	s.forget()
}

// forget drops what is known of removed shards when none is left.
func (s *State) forget() {
	if s.Retired.Len() == s.ReadCount-s.ShardCount {
		s.ReadCount, s.Retired, s.GivenUp, s.Ignored, s.Proofs = s.ShardCount, nil, nil, nil, nil
	}
}

func (s *State) beginDrain(in Input, cmd BeginDrain) ([]Event, bool, error) {
	m, open := s.Migrating()
	if !open || m.ID != cmd.ID || m.State != protocol.MigrationActive || s.Switched != cmd.Switched || len(s.behind()) > 0 {
		return nil, false, nil
	}
	events := []Event{s.turn(in, m, protocol.MigrationDraining)}
	return append(events, s.finish(in)...), true, nil
}

// finish ends the change whose removed shards are all gone.
func (s *State) finish(in Input) []Event {
	m, open := s.Migrating()
	if !open || m.State != protocol.MigrationDraining || s.ReadCount != s.ShardCount {
		return nil
	}
	return []Event{s.turn(in, m, protocol.MigrationDeprecated)}
}

// behind are the groups that do not follow the last switch yet.
func (s *State) behind() (names []string) {
	for _, g := range s.Groups {
		if g.Phase == GroupLive && g.Adopted < s.Switched {
			names = append(names, g.Name)
		}
	}
	return names
}

// Drains reports whether removed shards may go as soon as they are empty: nobody is
// told to write to them, and no change is under way that might want them back.
func (s *State) Drains() bool {
	m, open := s.Migrating()
	return s.ReadCount > s.ShardCount && (!open || m.State == protocol.MigrationDraining)
}

// Removed are the shards that are to go and have not gone.
func (s *State) Removed() spans.Set { return s.Retired.Without(s.ShardCount, s.ReadCount) }

func (s *State) prove(in Input, cmd Prove) ([]Event, bool, error) {
	if !s.Drains() {
		return nil, false, nil
	}
	removed := s.Removed()
	before := len(s.Proofs)
	for _, p := range cmd.Proofs {
		i, there := slices.BinarySearchFunc(s.Proofs, p.Shard, func(p Proof, shard int) int { return p.Shard - shard })
		if !there && removed.Contains(p.Shard) && len(s.Proofs) < maxProofs {
			s.Proofs = slices.Insert(s.Proofs, i, p)
		}
	}
	if len(s.Proofs) == before {
		return nil, false, nil
	}
	s.news(in)
	return nil, true, nil
}

func (s *State) retire(in Input, cmd Retire) ([]Event, bool, error) {
	if !s.Drains() {
		// They are wanted back, and are created again if they are gone.
		return nil, false, nil
	}
	removed := s.Removed()
	gone := slices.DeleteFunc(slices.Clone(cmd.Gone), func(i int) bool { return !removed.Contains(i) })
	before, proofs := s.Layout(), len(s.Proofs)
	s.Proofs = slices.DeleteFunc(s.Proofs, func(p Proof) bool {
		return slices.Contains(gone, p.Shard) || slices.Contains(cmd.Kept, p.Shard)
	})
	if len(gone) == 0 && len(s.Proofs) == proofs {
		return nil, false, nil
	}
	var events []Event
	if len(gone) > 0 {
		s.Retired = s.Retired.With(gone...)
		s.forget()
		events = append(events, ShardsRetired{s.Prefix, gone})
		events = append(events, s.finish(in)...)
	}
	if !s.Layout().same(before) {
		s.news(in)
	}
	return events, true, nil
}

func (s *State) adopted(cmd Adopted) ([]Event, bool, error) {
	i, found := s.find(cmd.Name)
	if !found || s.Groups[i].Adopted >= cmd.Version {
		return nil, false, nil
	}
	s.Groups[i].Adopted = cmd.Version
	return nil, true, nil
}

func (s *State) groupWentBack(cmd GroupWentBack) ([]Event, bool, error) {
	i, found := s.find(cmd.Name)
	if !found || s.Groups[i].Adopted == 0 {
		return nil, false, nil
	}
	s.Groups[i].Adopted = 0
	return nil, true, nil
}

// maxVersion bounds what WentBack can make of the record's version: no clock says so,
// and JSON has no exact numbers beyond it.
const maxVersion = 1 << 53

// wentBack gives the record a version that no group follows, so that all of them are told
// again. What was found empty may have been opened again in the writes that are lost, and
// shards may have been added in them: those that exist are found as strays.
func (s *State) wentBack(in Input, cmd WentBack) ([]Event, bool, error) {
	if cmd.Version <= s.Version || cmd.Version >= maxVersion || in.Rules.Off(rules.LostWritesAreTold) {
		return nil, false, nil
	}
	lost := WritesLost{s.Prefix, s.Version, cmd.Version}
	s.Version = cmd.Version
	s.news(in)
	s.Proofs = nil
	s.HighestCount = min(max(s.HighestCount, cmd.HighestCount), protocol.MaxShards)
	return []Event{lost}, true, nil
}

func (s *State) rollback(in Input, cmd Rollback) ([]Event, bool, error) {
	m, found := s.Migration(cmd.ID)
	if !found {
		return nil, false, protocol.ErrMigrationNotFound.With("stream %q has no migration %q, or it is too long ago", s.Prefix, cmd.ID)
	}
	switch m.State {
	case protocol.MigrationRollingBack, protocol.MigrationRolledBack:
		return nil, false, nil
	case protocol.MigrationDeprecated:
		return nil, false, protocol.ErrRollbackNotAllowed.With("migration %q of stream %q is done: scale the stream to %d shards instead", m.ID, s.Prefix, m.From)
	case protocol.MigrationPreparing:
		// Nobody was sent anywhere.
		return []Event{s.turn(in, m, protocol.MigrationRolledBack)}, true, nil
	}
	s.reopen(in)
	events := []Event{s.turn(in, m, protocol.MigrationRollingBack)}
	if in.Rules.Off(rules.RollbackProvisions) {
		events = append(events, s.turn(in, m, protocol.MigrationRolledBack))
		s.route(in, m.From)
	}
	return events, true, nil
}

func (s *State) rolledBack(in Input, cmd RolledBack) ([]Event, bool, error) {
	m, open := s.Migrating()
	if !open || m.ID != cmd.ID || m.State != protocol.MigrationRollingBack || !s.everyGroup(cmd.Groups) {
		return nil, false, nil
	}
	event := s.turn(in, m, protocol.MigrationRolledBack)
	s.route(in, m.From)
	return []Event{event}, true, nil
}

// strayed reports whether a shard that exists beyond the known ones is one that somebody
// has created late: no change is under way that creates any.
func (s *State) strayed() bool {
	m, open := s.Migrating()
	return !open || m.State == protocol.MigrationDraining
}

// unknown are the shards that do not exist, as far as is known, but did once.
func (s *State) unknown() spans.Set {
	all := s.Retired
	if s.ReadCount < s.HighestCount {
		all = append(slices.Clone(all), spans.Span{First: s.ReadCount, End: s.HighestCount})
	}
	return all
}

func (s *State) strays(in Input, cmd FoundStrays) ([]Event, bool, error) {
	if !s.strayed() {
		return nil, false, nil
	}
	read := s.Removed()
	var found []int
	end := s.ReadCount
	for _, i := range cmd.Shards {
		if i >= s.ShardCount && i < s.HighestCount && !read.Contains(i) {
			found = append(found, i)
			end = max(end, i+1)
		}
	}
	if len(found) == 0 {
		return nil, false, nil
	}
	s.ReadCount = end
	kept := spans.Of(append(slices.Collect(read.All()), found...)...)
	s.Retired = kept.Without(s.ShardCount, end)
	s.news(in)
	return []Event{StraysFound{s.Prefix, found}}, true, nil
}

func (s *State) ignore(cmd IgnoreGroup) ([]Event, bool, error) {
	_, ours := s.find(cmd.Name)
	at, again := slices.BinarySearch(s.Ignored, cmd.Name)
	switch {
	case ours:
		return nil, false, protocol.ErrInvalidRequest.With("consumerGroup: %q is a group of this stream, which its members read: delete the group if nobody needs it", cmd.Name)
	case !s.shrinks():
		return nil, false, protocol.ErrMigrationNotFound.With("no shard of stream %q is being removed", s.Prefix)
	case again:
		return nil, false, nil
	case len(s.Ignored) >= MaxIgnored:
		return nil, false, protocol.ErrLimit.With("%d consumer groups are ignored, more are not allowed: remove them from the streams in Redis", len(s.Ignored))
	}
	s.Ignored = slices.Insert(s.Ignored, at, cmd.Name)
	return []Event{GroupIgnored{s.Prefix, cmd.Name}}, true, nil
}

// shrinks reports whether shards are removed, now or soon.
func (s *State) shrinks() bool {
	m, open := s.Migrating()
	return s.ReadCount > s.ShardCount || open && m.To < m.From
}

func (s *State) giveUp(cmd GiveUp) ([]Event, bool, error) {
	removed := s.Removed()
	for _, i := range cmd.Shards {
		if !removed.Contains(i) {
			return nil, false, protocol.ErrInvalidRequest.With("shards: %d is not one of the shards of stream %q that are being removed", i, s.Prefix)
		}
	}
	given := s.GivenUp.With(cmd.Shards...)
	if given.Len() == s.GivenUp.Len() {
		return nil, false, nil
	}
	s.GivenUp = given
	// Those that were proven empty are removed by their proofs, if they still are.
	return []Event{ShardsGivenUp{s.Prefix, cmd.Shards}}, true, nil
}
