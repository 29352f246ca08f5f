package port

import "context"

// Repair is what was wrong with an index.
type Repair struct {
	// Added counts the records that the index lacked, Removed the names in it that
	// stood for nothing.
	Added, Removed int
}

// Repairer is a Store whose lists come from an index that is not written in one
// step with the records, such as that of a Redis Cluster.
type Repairer interface {
	// RepairIndex looks at all records there are and makes the index name them, and
	// nothing else. It may take long, can be repeated, and may run beside all other
	// calls. What was done is returned with an error, too.
	RepairIndex(ctx context.Context) (Repair, error)
}
