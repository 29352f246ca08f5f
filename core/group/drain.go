package group

// Drain takes a member out of work: it hands its shards over in the ordinary way,
// gets no new ones, and is answered and kept alive meanwhile. Undo puts it back. It
// is the incarnation that drains: a process that starts anew under the same id works
// as any other. Nothing happens where there is no such member.
type Drain struct {
	Member string
	Undo   bool
}

func (Drain) isCommand() {}

// MemberDraining: an operator drains the member; with Undone it gets shards again.
type MemberDraining struct {
	Member, Incarnation string
	Undone              bool
}

func (MemberDraining) isEvent() {}

func (c *change) drain(cmd Drain) {
	life, living := c.active(cmd.Member)
	if !living || c.s.Lives[life].Draining == !cmd.Undo {
		return
	}
	l := &c.s.Lives[life]
	l.Draining = !cmd.Undo
	c.changed, c.membership = true, true
	c.emit(MemberDraining{Member: l.Member, Incarnation: l.Incarnation, Undone: cmd.Undo})
}
