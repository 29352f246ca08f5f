package port

import "time"

// Clock tells the time twice: Wall for records that people read, Mono, which
// only ever runs forward, for every decision. Mono counts from an arbitrary
// start and stands still where the machine does.
type Clock interface {
	Wall() time.Time
	Mono() time.Duration
}

// IDs draws ids that are never drawn twice, by any process.
type IDs interface {
	NewID() string
}
