package stream

import (
	"slices"

	"github.com/redis-stream-coordinator/rsc/core/internal/rules"
	"github.com/redis-stream-coordinator/rsc/core/internal/spans"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// Step is something that is to be done outside the record. Each can be
// repeated; when it is done, its Done command is applied.
type Step interface{ isStep() }

// ProvisionStep: the shards First ≤ i < End are to exist, with these groups.
// An empty Groups asks for the keys alone.
type ProvisionStep struct {
	First, End int
	Groups     []string
	Start      protocol.GroupStart
	// Renew marks those that exist anew, so that a proof of before does not fit them.
	Renew bool
	// Done is nil where another step follows before anything is noted.
	Done Command
}

// CreateGroupStep: the group's aggregate is to exist.
type CreateGroupStep struct {
	Name string
	// Again is true when members of a deleted group of this name may still read.
	Again bool
	Done  Command
}

// AskGroupStep: a group is to be deleted unless it has live members. With one Refused is
// applied, without any Done. Nothing is deleted yet.
type AskGroupStep struct {
	Name          string
	Done, Refused Command
}

// DeleteGroupStep: the group's aggregate is to be gone.
type DeleteGroupStep struct {
	Name string
	// Force is true where it was not asked for members.
	Force      bool
	DeleteData bool
	End        int
	Done       Command
	// DoneHeld is Done where members may have been reading.
	DoneHeld Command
}

// DeleteStreamStep: the record is to be gone, with DeleteData the shards
// before it.
type DeleteStreamStep struct {
	DeleteData bool
	End        int
}

// AdoptStep: the group's aggregate is to follow the record.
type AdoptStep struct {
	Name   string
	Layout Layout
	Done   Command
}

// Layout is what a group is told of the shards.
type Layout struct {
	// ShardCount is how many shards producers write to. Groups read ReadCount, but for
	// those that are Closed: gone, or empty and about to go.
	ShardCount int
	ReadCount  int
	Closed     spans.Set
	// Version is that of the record.
	Version int64
}

// same reports whether groups are told the same, whatever the version.
func (l Layout) same(as Layout) bool {
	return l.ShardCount == as.ShardCount && l.ReadCount == as.ReadCount && slices.Equal(l.Closed, as.Closed)
}

// NoteStep: nothing is to be done but to note it.
type NoteStep struct{ Done Command }

// LookStep: the removed shards are to be looked at. What Prove makes of them is
// applied, unless it is empty.
type LookStep struct{ Shards []int }

// RetireStep: shards are to be removed, each in one go with the look whether it still is
// what was proven; but for those that members of the Readers have not let go of yet, see
// Without. What became of them is applied, as Retire.
type RetireStep struct {
	Shards []Retirement
	// Readers are groups of ours. Who reads a stream while it is removed gets an error
	// that not every client outlives.
	Readers []string
	// Groups are those that a shard which holds records is not empty without, see Drained.
	Groups []string
	// Ignored are the consumer groups that nobody has to wait for.
	Ignored []string
}

// Retirement is the removal of one shard.
type Retirement struct {
	Proof
	// Force removes it with what it holds.
	Force bool
	// AnyStream removes any stream under that key, not only the proven one; in tests
	// only.
	AnyStream bool
}

// Without leaves shards out that somebody may still be reading.
func (r RetireStep) Without(read map[int]Reader) RetireStep {
	r.Shards = slices.DeleteFunc(slices.Clone(r.Shards), func(one Retirement) bool {
		_, held := read[one.Shard]
		return held
	})
	return r
}

// Reader is who may still be reading a shard.
type Reader struct {
	// Group is one of ours, and Member one of it that has not let go; empty where the
	// group does not know yet that the shard is closed.
	Group, Member string
	// Err says why the group's record cannot be read: then nobody knows what its members
	// read. Nil where it can.
	Err error
}

// FindStep: those of the shards First ≤ i < End that exist are applied as FoundStrays,
// unless there is none.
type FindStep struct{ First, End int }

func (ProvisionStep) isStep()    {}
func (CreateGroupStep) isStep()  {}
func (AskGroupStep) isStep()     {}
func (DeleteGroupStep) isStep()  {}
func (DeleteStreamStep) isStep() {}
func (AdoptStep) isStep()        {}
func (NoteStep) isStep()         {}
func (LookStep) isStep()         {}
func (RetireStep) isStep()       {}
func (FindStep) isStep()         {}

// Next returns the steps that are open, in the order in which they are to be
// taken; none when the world is as the record says, or only time can help.
func (s *State) Next(in Input) []Step {
	if !s.Exists() {
		return nil
	}
	if s.Removal != nil {
		return []Step{DeleteStreamStep{DeleteData: s.Removal.DeleteData, End: s.HighestCount}}
	}
	var steps []Step
	if !s.Provisioned {
		steps = append(steps, ProvisionStep{End: s.ShardCount, Start: s.GroupStart, Done: Provisioned{}})
	}
	for _, g := range s.Groups {
		steps = append(steps, s.nextOf(in, &g)...)
	}
	steps = append(steps, s.migrate(in)...)
	return append(steps, s.drain(in)...)
}

// nextOf are the open steps of one group.
func (s *State) nextOf(in Input, g *Group) (steps []Step) {
	switch g.Phase {
	case GroupCreating:
		for _, run := range s.wanted() {
			steps = append(steps, ProvisionStep{First: run.First, End: run.End, Groups: []string{g.Name}, Start: s.GroupStart})
		}
		steps = append(steps, CreateGroupStep{Name: g.Name, Again: g.Again, Done: GroupCreated{g.Name, g.CreatedAt.UnixMilli()}})
	case GroupDeleting:
		if !g.goes() {
			return append(steps, AskGroupStep{Name: g.Name, Done: DeleteFinally{g.Name}, Refused: KeepGroup{g.Name}})
		}
		steps = append(steps, DeleteGroupStep{
			Name: g.Name, Force: g.Force, DeleteData: g.DeleteData, End: s.HighestCount,
			Done: GroupDeleted{Name: g.Name}, DoneHeld: GroupDeleted{Name: g.Name, Held: true},
		})
	case GroupLive:
		if g.Adopted < s.Version {
			layout := s.Layout()
			if in.Rules.Off(rules.RemovedShardsAreRead) {
				layout.ReadCount, layout.Closed = layout.ShardCount, nil
			}
			steps = append(steps, AdoptStep{Name: g.Name, Layout: layout, Done: Adopted{g.Name, s.Version}})
		}
	}
	return steps
}

// Layout is what groups are told of the shards.
func (s *State) Layout() Layout {
	proven := make([]int, len(s.Proofs))
	for i, p := range s.Proofs {
		proven[i] = p.Shard
	}
	return Layout{ShardCount: s.ShardCount, ReadCount: s.ReadCount, Closed: s.Retired.With(proven...), Version: s.Version}
}

// wanted are the shards that every group is to be on: those that are read, and those
// that a change of the count is about to bring.
func (s *State) wanted() spans.Set {
	all := s.Retired.Without(0, s.ReadCount)
	if first, end := s.coming(); first < end {
		all = all.With(slices.Collect(spans.Set{{First: first, End: end}}.All())...)
	}
	return all
}

// coming are the shards that are to be created before producers are sent to them.
func (s *State) coming() (first, end int) {
	m, open := s.Migrating()
	switch {
	case open && m.State == protocol.MigrationPreparing:
		return s.ShardCount, m.To
	case open && m.State == protocol.MigrationRollingBack:
		return s.ShardCount, m.From
	}
	return 0, 0
}

// migrate are the open steps of a change of the shard count.
func (s *State) migrate(in Input) []Step {
	m, open := s.Migrating()
	if !open {
		return nil
	}
	var named []string
	for _, g := range s.Groups {
		if g.Phase != GroupDeleting {
			named = append(named, g.Name)
		}
	}
	var done Command
	switch m.State {
	case protocol.MigrationPreparing:
		done = Activate{m.ID, named}
	case protocol.MigrationRollingBack:
		done = RolledBack{m.ID, named}
	case protocol.MigrationActive:
		if s.routesOver(in) && len(s.behind()) == 0 {
			return []Step{NoteStep{BeginDrain{m.ID, s.Switched}}}
		}
		return nil
	default:
		return nil
	}
	first, end := s.coming()
	if first >= end {
		return []Step{NoteStep{done}}
	}
	start := protocol.StartEarliest
	if in.Rules.Off(rules.NewShardsFromStart) {
		start = protocol.StartLatest
	}
	return []Step{ProvisionStep{
		First: first, End: end, Groups: named, Start: start, Renew: in.Rules.On(rules.ProvisionRenews), Done: done,
	}}
}

// drain are the open steps of removed shards.
func (s *State) drain(in Input) (steps []Step) {
	if in.Look && s.strayed() && in.Rules.On(rules.StraysAreFound) {
		for _, run := range s.unknown() {
			steps = append(steps, FindStep{run.First, run.End})
		}
	}
	if !s.Drains() || !s.routesOver(in) {
		return steps
	}
	if len(s.Proofs) > 0 {
		steps = append(steps, s.retireStep(in))
	}
	var look []int
	for i := range s.Removed().All() {
		if !s.Proven(i) {
			look = append(look, i)
		}
	}
	// While so many are closed, nothing would come of a look at the others.
	if len(look) > 0 && len(s.Proofs) < maxProofs {
		steps = append(steps, LookStep{look})
	}
	return steps
}

// Proven reports whether a removed shard was found empty.
func (s *State) Proven(shard int) bool {
	_, proven := slices.BinarySearchFunc(s.Proofs, shard, func(p Proof, shard int) int { return p.Shard - shard })
	return proven
}

// live are the groups that exist.
func (s *State) live() (names []string) {
	for i := range s.Groups {
		if g := &s.Groups[i]; g.Phase == GroupLive {
			names = append(names, g.Name)
		}
	}
	return names
}

// Readers are the groups whose members may be reading.
func (s *State) Readers() (names []string) {
	for i := range s.Groups {
		if g := &s.Groups[i]; !g.goes() {
			names = append(names, g.Name)
		}
	}
	return names
}

func (s *State) retireStep(in Input) RetireStep {
	step := RetireStep{Ignored: s.Ignored}
	if in.Rules.On(rules.ReadersLetGo) {
		step.Readers = s.Readers()
	}
	if in.Rules.On(rules.GroupsAreOnShards) {
		step.Groups = s.live()
	}
	for _, p := range s.Proofs {
		step.Shards = append(step.Shards, Retirement{
			Proof: p, Force: s.GivenUp.Contains(p.Shard) || in.Rules.Off(rules.RetireProvesAgain), AnyStream: in.Rules.Off(rules.RetireKnowsStream),
		})
	}
	return step
}
