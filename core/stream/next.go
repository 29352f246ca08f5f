package stream

import "github.com/redis-stream-coordinator/rsc/core/protocol"

// Step is something that is to be done outside the record. Each can be
// repeated; when it is done, its Done command is applied.
type Step interface{ isStep() }

// ProvisionStep: the shards First ≤ i < End are to exist, with these groups.
// An empty Groups asks for the keys alone.
type ProvisionStep struct {
	First, End int
	Groups     []string
	Start      protocol.GroupStart
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

// DeleteGroupStep: the group's aggregate is to be gone. With live members and
// without Force it is refused, and Refused is applied instead of Done.
type DeleteGroupStep struct {
	Name       string
	Force      bool
	DeleteData bool
	End        int
	Done       Command
	// DoneHeld is Done where members may have been reading.
	DoneHeld Command
	Refused  Command
}

// DeleteStreamStep: the record is to be gone, with DeleteData the shards
// before it.
type DeleteStreamStep struct {
	DeleteData bool
	End        int
}

func (ProvisionStep) isStep()    {}
func (CreateGroupStep) isStep()  {}
func (DeleteGroupStep) isStep()  {}
func (DeleteStreamStep) isStep() {}

// Next returns the steps that are open, in the order in which they are to be
// taken; none when the world is as the record says.
func (s *State) Next() []Step {
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
		switch g.Phase {
		case GroupCreating:
			steps = append(steps,
				ProvisionStep{End: s.ShardCount, Groups: []string{g.Name}, Start: s.GroupStart},
				CreateGroupStep{Name: g.Name, Again: g.Again, Done: GroupCreated{g.Name}})
		case GroupDeleting:
			steps = append(steps, DeleteGroupStep{
				Name: g.Name, Force: g.Force, DeleteData: g.DeleteData, End: s.HighestCount,
				Done: GroupDeleted{Name: g.Name}, DoneHeld: GroupDeleted{Name: g.Name, Held: true}, Refused: KeepGroup{g.Name},
			})
		case GroupLive:
		}
	}
	return steps
}
