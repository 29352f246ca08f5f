package port

import (
	"context"
	"errors"
)

// GroupKey names a group: the consumer group of one stream.
type GroupKey struct {
	Stream string
	Group  string
}

// String gives stream and group for people; it is not a store key.
func (k GroupKey) String() string { return k.Stream + "/" + k.Group }

// Version names one written state of a record. The zero Revision means that
// the record does not exist.
//
// As the condition of a write it holds while the record is at this Revision
// and Nonce, or with Revision 0 while there is no record, and Instance is the
// one that answers. An empty Instance is any instance.
type Version struct {
	// Instance is the instance of the store that answered: another one answers
	// after a restart or a failover, and it may have lost the last writes. In a store
	// of several servers it is that of the server that holds the record.
	Instance string
	// Revision counts the writes of the record, from 1.
	Revision int64
	// Nonce is the random id of the write, empty where the record was written by
	// a program that knows none. Revisions that were lost are used again, and so
	// are those of a record that was deleted; nonces are not.
	Nonce string
}

// Record is a stored record. Body is nil where there is no record, and where it
// was not asked for because the caller knows it already; nowhere else.
type Record struct {
	Version Version
	Body    []byte
}

// Stamp is the proof of life of one incarnation: a random value that changes
// with every renewal. An empty Value means that there is none; writing it
// removes the stamp.
type Stamp struct {
	Life  string
	Value string
}

// GroupRecord is a group's aggregate with the stamps beside it.
type GroupRecord struct {
	Record
	// Stamps maps incarnations to the values of their stamps; empty or nil when
	// there are none.
	Stamps map[string]string
}

// Report is what an incarnation last said of itself, for display only. It is
// opaque to the store and replaced as a whole.
type Report struct {
	Life string
	Body []byte
}

// Renewal writes stamps and reports, if and only if the aggregate is still at
// Expected. With Revision 0 it never is: nothing lies beside a group that does
// not exist.
type Renewal struct {
	Expected Version
	Stamps   []Stamp
	Reports  []Report
}

// GroupSave writes an aggregate and what lies beside it, in one atomic step, if
// and only if all of its conditions hold.
type GroupSave struct {
	// Expected is the version that the new one was made from; with Revision 0
	// the aggregate must not exist. The new Revision is one higher.
	Expected Version
	// Relied are stamps that must be unchanged (with an empty Value: still
	// missing), because something is taken from these incarnations.
	Relied []Stamp
	// Nonce identifies the write; fresh for every one and never empty.
	Nonce string
	// Body is the new aggregate, any bytes.
	Body []byte
	// SchemaVersion and UpdatedAt describe Body for other readers of the store.
	SchemaVersion int
	UpdatedAt     string
	// Stamps and Reports are written beside it.
	Stamps  []Stamp
	Reports []Report
	// Ended are incarnations whose stamp and report are removed, even where Stamps
	// or Reports name them.
	Ended []string
}

// StreamSave writes a stream record, if and only if it is still at Expected.
// The fields are those of GroupSave.
type StreamSave struct {
	Expected Version
	Nonce    string
	Body     []byte
}

// Errors that a store answers with. Any other error of a write means that it is
// unknown whether the write took place: load, and compare the nonce. A store
// never sends a write again by itself.
var (
	// ErrConflict: a condition of the write does not hold; nothing was written.
	ErrConflict = errors.New("the record changed, or another instance of the store answered")
	// ErrTooLarge: the body is larger than the store takes; nothing was written.
	ErrTooLarge = errors.New("the record is larger than the store takes")
)

// Store keeps the records of groups and streams. Every method is safe for
// concurrent use, every load shows one moment, and every conditional write is
// one atomic step. Names are any text; those that differ in a byte are
// different names.
//
// A store keeps none of the slices and maps that it is given, and the caller
// owns those that it gets. A call whose ctx has ended does nothing and returns
// its cause. A record that is damaged is protocol.ErrCorrupt to whoever loads
// it, and to nobody else.
type Store interface {
	// LoadGroup returns the aggregate of a group with its stamps. Body is nil
	// when the stored version equals known in all its fields. A group that does
	// not exist has Revision 0, no stamps and no error.
	LoadGroup(ctx context.Context, key GroupKey, known Version) (GroupRecord, error)
	// SaveGroup writes an aggregate; it returns the version written, with the
	// instance that wrote it.
	// Errors: ErrConflict, ErrTooLarge; else the outcome is unknown.
	SaveGroup(ctx context.Context, key GroupKey, s GroupSave) (Version, error)
	// RenewGroup writes stamps and reports, in one round trip.
	// Errors: ErrConflict when the aggregate is at another version or gone; else
	// the outcome is unknown, and writing the same again does no harm.
	RenewGroup(ctx context.Context, key GroupKey, r Renewal) error
	// DeleteGroup removes the aggregate at version expected, its stamps and
	// reports. Errors: ErrConflict when it is at another version or gone.
	DeleteGroup(ctx context.Context, key GroupKey, expected Version) error
	// ListGroups returns the keys of all groups, damaged ones included, sorted
	// by stream, then group, byte by byte.
	ListGroups(ctx context.Context) ([]GroupKey, error)
	// Reports returns what the incarnations of a group last said of themselves.
	Reports(ctx context.Context, key GroupKey) (map[string][]byte, error)

	// LoadStream returns a stream record; one that does not exist has Revision 0
	// and no error.
	LoadStream(ctx context.Context, prefix string) (Record, error)
	// SaveStream writes a stream record; it returns the version written.
	// Errors: ErrConflict, ErrTooLarge; else the outcome is unknown.
	SaveStream(ctx context.Context, prefix string, s StreamSave) (Version, error)
	// DeleteStream removes the record at version expected.
	// Errors: ErrConflict when it is at another version or gone.
	DeleteStream(ctx context.Context, prefix string, expected Version) error
	// ListStreams returns the prefixes of all stream records, sorted byte by byte.
	ListStreams(ctx context.Context) ([]string, error)

	// Identity returns what names the store as a whole, and draws an id where there is
	// none. known is the id that the caller was told before, empty for none. A caller
	// whose id is not the store's any more leaves that behind for others, see Emptied.
	Identity(ctx context.Context, known string) (Identity, error)
	// Ping reaches the store and returns its instance; of a store of several servers,
	// one of them.
	Ping(ctx context.Context) (instance string, err error)
}

// Identity names a store as a whole.
type Identity struct {
	// ID is drawn once. One that changes while the program runs means that everything
	// was lost, or, in a store of several servers, what one of them held.
	ID string
	// Emptied says that the store was emptied before it got this id: somebody has
	// looked who knew an earlier one.
	Emptied bool
}
