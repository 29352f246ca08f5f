package group

import (
	"slices"
	"strings"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/internal/spans"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// None stands for no life in a column of the ledger or in the target.
const None int32 = -1

// State is the aggregate of one group. It is a value: Apply copies what it
// changes and leaves the State that it was given as it was.
type State struct {
	// Stream and Group name the group.
	Stream string
	Group  string
	// CreatedAt and UpdatedAt are for people.
	CreatedAt time.Time
	UpdatedAt time.Time
	// Counter is the last epoch that was drawn. It starts at EpochAt the creation
	// time, so that a group that was lost or deleted and created again does not
	// use an epoch twice.
	Counter protocol.Epoch
	// GroupEpoch is the counter's value when membership or shard count last
	// changed; AssignmentEpoch is the group epoch that Target was computed for,
	// equal to it after every Apply.
	GroupEpoch      protocol.Epoch
	AssignmentEpoch protocol.Epoch
	// MetadataVersion rises with both.
	MetadataVersion int64
	// ShardCount is the adopted copy of the stream's: producers write to so many
	// shards. ReadCount of them are read, but for those that are Closed; the columns
	// may have more rows, of shards that are read no more and still held. StreamVersion
	// is the version of the stream record that this was taken from.
	ShardCount    int
	ReadCount     int
	Closed        spans.Set
	StreamVersion int64
	// Timings are what every coordinator and member of this group obeys.
	Timings protocol.Timings
	// Promised is a longer lease that members may still have been promised before
	// the timings changed, 0 for none; TimingsEpoch is the group epoch of that
	// change.
	Promised     time.Duration
	TimingsEpoch protocol.Epoch
	// Instance is the instance of the store that the state was last saved in,
	// Ring its last saves, oldest first: by both a coordinator notices that the
	// store went backwards. They are set by whoever saves.
	Instance string
	Ring     []Save
	// Dates tell when the last epochs were drawn, oldest first; for people.
	Dates []Date
	// Correction is open while the group makes sure, after the store went
	// backwards, who reads what; nil otherwise.
	Correction *Correction
	// Lives are the incarnations that are alive, and those that ended but may
	// still be reading; in the order of their joining.
	Lives []Life
	// Ledger says who may be reading which shard now.
	Ledger Ledger
	// Target says who should hold each shard: indexes into Lives, or None.
	Target []int32
	// Ended are the last incarnations that ended, oldest first. Requests of
	// theirs that come late are refused.
	Ended []Tombstone
}

// Ledger holds a grant for each shard, in columns.
type Ledger struct {
	// Holder is the life that may be reading the shard, or None.
	Holder []int32
	// Grant is the member epoch in which the holder got it: the fencing token.
	Grant []protocol.Epoch
	// Revoke is the member epoch in which it was taken away again while the
	// holder has not let go yet; 0 where nothing is revoked.
	Revoke []protocol.Epoch
}

// Save names one save of the state.
type Save struct {
	Revision int64
	Nonce    string
}

// RingSize bounds State.Ring.
const RingSize = 64

// Remembers reports whether the state can have followed on an earlier save: it
// is in the ring, or too old to be.
func (s *State) Remembers(w Save) bool {
	return len(s.Ring) == 0 || w.Revision < s.Ring[0].Revision || slices.Contains(s.Ring, w)
}

// Saving notes the save that will write the state, in a copy of the ring.
func (s *State) Saving(w Save, instance string) {
	old := s.Ring
	if len(old) >= RingSize {
		old = old[len(old)-RingSize+1:]
	}
	s.Ring = append(slices.Clone(old), w)
	s.Instance = instance
}

// Correction is what is open after the store went backwards: writes were lost,
// so the ledger may not know of shards that are being read. Until it ends no
// shard is granted, and members are told to keep only what both they and the
// ledger say is theirs.
type Correction struct {
	// Jump is an epoch above everything that was stored, seen or reported when
	// the correction was opened. It ends when every live member has sent one that
	// is at least as high.
	Jump protocol.Epoch
	// Reason says how it was noticed; OpenedAt is for people.
	Reason   string
	OpenedAt time.Time
}

// LifeState says how an incarnation stands.
type LifeState uint8

// The states of an incarnation.
const (
	// Active: joined; gets shards.
	Active LifeState = iota
	// Leaving: said goodbye; is answered until it holds nothing.
	Leaving
	// Over: fenced or replaced. Nothing that it sends counts; what it holds is
	// held until its lease runs out.
	Over
)

// Life is one incarnation of a member.
type Life struct {
	// Member is the member's id, Name its name for people.
	Member string
	Name   string
	// Incarnation is the id that the client drew, or one that was drawn for a
	// client that does not know the field (Legacy).
	Incarnation string
	Legacy      bool
	State       LifeState
	// JoinEpoch is the epoch given at the join, Acked the highest one that the
	// member has sent back (0: none), Epoch its present one.
	JoinEpoch protocol.Epoch
	Acked     protocol.Epoch
	Epoch     protocol.Epoch
	// InSync is true, during a correction, once the member has sent an epoch
	// after the jump and reported nothing that the ledger does not give it.
	InSync bool
	// Doubtful is true for a Legacy life whose join was repeated before anything
	// was acknowledged: the answer was lost, or a second process has started. Its
	// leave may be that of the first one, and frees nothing.
	Doubtful bool
	// Draining is true while an operator drains the member: it is answered and keeps
	// its lease, but no shard is meant for it.
	Draining bool
	// JoinedAt is for people.
	JoinedAt time.Time
}

// Key names the life beside the aggregate, where its stamp lies. Names hold no
// slash, so keys do not collide.
func (l *Life) Key() string { return LifeKey(l.Member, l.Incarnation) }

// LifeKey names a life by member and incarnation.
func LifeKey(member, incarnation string) string { return member + "/" + incarnation }

// maxLives bounds the lives of a group: as many as it may have members, and one
// more for each that was replaced and may still be reading.
const maxLives = 2 * protocol.MaxMembers

// epochsPerMs is many more than are ever drawn in a millisecond, and few enough
// for an epoch to be exact as a JSON number until the year 2248.
const epochsPerMs = 1 << 10

// EpochAt is an epoch above all that were drawn before a time, by clocks that are
// not far off.
func EpochAt(t time.Time) protocol.Epoch { return protocol.Epoch(t.UnixMilli() * epochsPerMs) }

// New returns the state of a group without members.
func New(stream, name string, shards int, streamVersion int64, t protocol.Timings, now time.Time) State {
	epoch := EpochAt(now)
	s := State{
		Stream:          stream,
		Group:           name,
		CreatedAt:       now,
		UpdatedAt:       now,
		Counter:         epoch,
		GroupEpoch:      epoch,
		AssignmentEpoch: epoch,
		MetadataVersion: int64(epoch),
		ShardCount:      shards,
		ReadCount:       shards,
		StreamVersion:   streamVersion,
		Timings:         t,
		Ledger: Ledger{
			Holder: make([]int32, shards),
			Grant:  make([]protocol.Epoch, shards),
			Revoke: make([]protocol.Epoch, shards),
		},
		Target: make([]int32, shards),
		Dates:  []Date{{epoch, now.UnixMilli()}},
	}
	for i := range s.Target {
		s.Target[i], s.Ledger.Holder[i] = None, None
	}
	return s
}

// LongestLease is the longest lease that any member may count on: a shorter one
// counts only after the longest that was promised before is over.
func (s *State) LongestLease() time.Duration { return max(s.Timings.Lease, s.Promised) }

// Summary sums the group up in one word.
func (s *State) Summary() protocol.GroupState {
	if !s.HasActive() {
		return protocol.GroupEmpty
	}
	for i := range s.Lives {
		if l := &s.Lives[i]; l.State == Active && l.Acked != l.Epoch {
			return protocol.GroupReconciling
		}
	}
	for i, h := range s.Ledger.Holder {
		if s.Ledger.Revoke[i] != 0 || h != s.Target[i] {
			return protocol.GroupReconciling
		}
	}
	return protocol.GroupStable
}

// closed reports a shard that is read no more.
func (s *State) closed(shard int) bool { return shard >= s.ReadCount || s.Closed.Contains(shard) }

// HasActive reports whether the group has a live member.
func (s *State) HasActive() bool {
	return slices.ContainsFunc(s.Lives, func(l Life) bool { return l.State == Active })
}

// takesShards reports whether shards can be meant for the life.
func (l *Life) takesShards() bool { return l.State == Active && !l.Draining }

// hasTakers reports whether there is anybody that shards can be meant for.
func (s *State) hasTakers() bool {
	return slices.ContainsFunc(s.Lives, func(l Life) bool { return l.takesShards() })
}

// takersByID returns the lives that take shards in the order of their member ids,
// which is the order that the assignor works in.
func (s *State) takersByID() []int32 {
	var live []int32
	for i := range s.Lives {
		if s.Lives[i].takesShards() {
			live = append(live, int32(i))
		}
	}
	slices.SortFunc(live, func(a, b int32) int { return strings.Compare(s.Lives[a].Member, s.Lives[b].Member) })
	return live
}
