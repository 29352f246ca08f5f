package consumer

import "time"

// entry is a record in hand: read, and not finished.
type entry struct {
	Record
	id streamID
	// key is what the order is kept by; size is what the record counts in bytes.
	key  string
	size int64

	// The fields below belong to whoever works on the entry, and to its lane's
	// scheduler in between.

	// owed: the delivery count in Redis includes a start that has not happened. It
	// is taken back if the record goes back like that.
	owed bool
	// recovered: it was taken over from the pending list, and not begun by us since.
	recovered bool
	// suspect: it was begun before, twice at least, and its handler did not come to
	// an end the last time. It may be what ended the process. ended: it did.
	suspect, ended bool
	// orphan: its stream is gone. One that has its id since is another record.
	orphan bool
	// doom is why it is to be moved to the dead-letter stream, nil while it is not.
	doom error
	// failures counts those of its handler here, due is the end of the present pause.
	failures int
	due      time.Time
	// exit is what became of it when its handler ended the goroutine.
	exit *verdict
}

// verdict is what became of an entry that was worked on.
type verdict struct {
	// again: it is not finished, and stays in front of its lane for after.
	again bool
	after time.Duration
}

// returned is an entry that goes back unfinished, with the delivery count that it
// has and the one that it is to have.
type returned struct {
	id         string
	had, count int
}
