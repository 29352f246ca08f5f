package consumer

import "sync/atomic"

// Stats counts what a consumer has done since it was made.
type Stats struct {
	// Handled counts records that were handled without an error.
	Handled uint64
	// Failed counts calls of the handler that returned an error or panicked.
	Failed uint64
	// Acknowledged counts records whose acknowledgement Redis has confirmed.
	Acknowledged uint64
	// Recovered counts records that were taken over from the pending list: left
	// by an earlier owner, or lost on their way to us.
	Recovered uint64
	// Deleted counts records that were pending and no longer exist in the stream,
	// deleted or trimmed before they were handled.
	Deleted uint64
}

type stats struct {
	handled, failed, acknowledged, recovered, deleted atomic.Uint64
}

func (s *stats) snapshot() Stats {
	return Stats{
		Handled: s.handled.Load(), Failed: s.failed.Load(), Acknowledged: s.acknowledged.Load(),
		Recovered: s.recovered.Load(), Deleted: s.deleted.Load(),
	}
}
