package group

import (
	"slices"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/internal/rules"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// Correct opens a correction: the coordinator that acts has noticed that the
// store went backwards.
type Correct struct {
	// Seen and SeenVersion are the highest epoch and metadata version that this
	// coordinator knows of.
	Seen        protocol.Epoch
	SeenVersion int64
	// Reason says how it was noticed.
	Reason string
	// Once leaves a correction that is open as it is.
	Once bool
}

func (Correct) isCommand() {}

// CorrectionOpened and CorrectionEnded: see Correction.
type (
	CorrectionOpened struct {
		Jump   protocol.Epoch
		Reason string
	}
	CorrectionEnded struct{ Jump protocol.Epoch }
)

func (CorrectionOpened) isEvent() {}
func (CorrectionEnded) isEvent()  {}

const (
	// A correction moves the epochs beyond everything known by minJump, and at
	// least to EpochAt now: that is above what was drawn by others and lost before
	// anybody here saw it, and above an earlier correction that was lost itself. A
	// wrong clock costs only this second line.
	minJump = 1 << 16
	// maxReportJump bounds how far a member's report may lie above what is stored
	// and above EpochAt now; a number beyond both is a mistake or an attack.
	maxReportJump = 1 << 32
)

// correct opens a correction, or a new one in place of one that is open. Numbers
// may be learned from what was seen or reported, ownership never.
func (c *change) correct(cmd Correct) {
	if c.on(rules.CorrectionJumps) {
		c.s.Counter = max(
			max(c.s.Counter, cmd.Seen, protocol.Epoch(cmd.SeenVersion))+minJump,
			EpochAt(c.in.Now),
		)
		c.s.MetadataVersion = max(c.s.MetadataVersion, cmd.SeenVersion)
	}
	c.changed = true
	c.membership = true
	c.s.Correction = &Correction{Jump: c.draw(), Reason: cmd.Reason, OpenedAt: c.in.Now}
	for i := range c.s.Lives {
		if l := &c.s.Lives[i]; l.State != Over {
			l.InSync = false
			delete(c.drawn, int32(i))
			c.newEpoch(int32(i))
		}
	}
	c.emit(CorrectionOpened{Jump: c.s.Correction.Jump, Reason: cmd.Reason})
}

// beingCreated is the reason of the correction that a group begins with.
const beingCreated = "the group is being created"

// NewUnconfirmed returns the state of a group that grants nothing before Confirm, or
// before a lease time has passed. Whoever creates it may be so late that a group of this
// name has lived and been deleted meanwhile, and its members still read: only what he finds
// after he has saved it tells him that this is not so.
func NewUnconfirmed(stream, name string, t protocol.Timings, now time.Time) State {
	s := New(stream, name, 0, 0, t, now)
	s.Correction = &Correction{Jump: s.Counter, Reason: beingCreated, OpenedAt: now}
	return s
}

// Unconfirmed reports whether the group still waits for Confirm.
func (s *State) Unconfirmed() bool { return s.Correction != nil && s.Correction.Reason == beingCreated }

// Confirm lets a group grant shards: no members of an earlier one can be reading.
type Confirm struct{}

func (Confirm) isCommand() {}

func (c *change) confirm() {
	if c.s.Unconfirmed() {
		c.s.Correction = nil
		c.changed, c.moved = true, true
	}
}

// LoadedFrom returns cmd as it is to be applied to a state that an instance of the store
// has answered with. If it was saved in another one, the last writes may be lost: then a
// correction is opened before anything else, since the next save hides that.
func (s *State) LoadedFrom(instance string, cmd Command) Command {
	if s.Instance == "" || s.Instance == instance {
		return cmd
	}
	return Batch{Correct{Reason: AnotherInstance}, cmd}
}

// AnotherInstance is the reason of such a correction.
const AnotherInstance = "another instance of the store answers, which may have lost the last writes"

// reported opens a correction if a member's report shows that the store went
// backwards: it knows a metadata version that was never stored. It reports
// whether the request is to be refused instead.
func (c *change) reported(q *protocol.Heartbeat, life int32) (refused bool) {
	l := &c.s.Lives[life]
	limit := max(c.s.MetadataVersion, int64(EpochAt(c.in.Now))) + maxReportJump
	switch {
	case q.MetadataVersion <= c.s.MetadataVersion || !c.on(rules.ReportIsNoticed):
		if q.MemberEpoch > l.Epoch {
			c.verdict(q, protocol.StatusInvalidRequest, "memberEpoch: is %d, the member was given %d at most", q.MemberEpoch, l.Epoch)
			return true
		}
		return false
	case q.MetadataVersion > limit || int64(q.MemberEpoch) > limit:
		c.verdict(q, protocol.StatusInvalidRequest, "metadataVersion: is %d, far above the %d that is stored", q.MetadataVersion, c.s.MetadataVersion)
		return true
	case !c.in.MayCorrect:
		c.verdict(q, protocol.StatusRetry, "the store may have gone backwards, which is being looked into: repeat the request")
		return true
	}
	c.in.MayCorrect = false
	c.correct(Correct{Seen: q.MemberEpoch, SeenVersion: q.MetadataVersion, Reason: "a member knows a later metadata version than the store"})
	return false
}

// notice keeps book, during a correction, of whether a member is in sync: it has
// sent an epoch after the jump and reports nothing that the ledger does not give
// it.
func (c *change) notice(q *protocol.Heartbeat, life int32) {
	if c.s.Correction == nil {
		return
	}
	l := &c.s.Lives[life]
	sync := q.MemberEpoch >= c.s.Correction.Jump || q.MemberEpoch == protocol.EpochLeave
	sync = sync && !slices.ContainsFunc(q.OwnedShards, func(s protocol.ShardIndex) bool { return !c.heldBy(int(s), life) })
	for i := range q.RevokingShards {
		if r := &q.RevokingShards[i]; !r.Terminal() && !c.heldBy(int(r.Shard), life) {
			sync = false
		}
	}
	if sync != l.InSync {
		l.InSync = sync
		c.changed = true
	}
	if q.MemberEpoch >= c.s.Correction.Jump && c.on(rules.CorrectionRenewsTokens) {
		c.retoken(q, life)
	}
}

// retoken gives a new token to the shards that the ledger gives a member and
// that it does not read: somebody else may have read them under a later token
// that was lost.
func (c *change) retoken(q *protocol.Heartbeat, life int32) {
	for _, held := range c.mayHold(life) {
		shard := int(held)
		if !c.heldBy(shard, life) || c.s.Ledger.Revoke[shard] != 0 || c.s.Ledger.Grant[shard] >= c.s.Correction.Jump ||
			slices.Contains(q.OwnedShards, protocol.ShardIndex(shard)) {
			continue
		}
		epoch := c.newEpoch(life)
		c.ledger().Grant[shard] = epoch
		c.emit(ShardGranted{Shard: protocol.ShardIndex(shard), Member: q.MemberID, Epoch: epoch})
	}
}

// endCorrection ends a correction that has been open for a lease time on the
// clock of the coordinator that acts, once every live member is in sync.
func (c *change) endCorrection() {
	k := c.s.Correction
	if k == nil {
		return
	}
	if c.in.Corrected != k.Jump && c.on(rules.CorrectionWaitsLease) {
		return
	}
	if c.on(rules.CorrectionWaitsSync) && slices.ContainsFunc(c.s.Lives, func(l Life) bool { return l.State != Over && !l.InSync }) {
		return
	}
	c.s.Correction = nil
	c.changed, c.moved = true, true
	c.emit(CorrectionEnded{Jump: k.Jump})
}
