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
	// Retried counts calls of the handler that failed and are followed by another.
	Retried uint64
	// DeadLettered counts records that were moved to the dead-letter stream.
	DeadLettered uint64
	// Suspects counts records that had been begun twice at least and never ended,
	// and were therefore begun alone.
	Suspects uint64
	// Late counts records that were found pending behind later ones of their shard
	// that had been begun, so that the order of their key may have been broken. It
	// takes somebody else who reads with this group: an old owner that was paused
	// and is served after its lease and ours since, or a foreign reader.
	Late uint64
	// Trimmed counts records that retention removed, see Retention.
	Trimmed uint64
}

type stats struct {
	handled, failed, acknowledged, recovered, deleted, retried, deadLettered, suspects, late, trimmed atomic.Uint64
}

func (s *stats) snapshot() Stats {
	return Stats{
		Handled: s.handled.Load(), Failed: s.failed.Load(), Acknowledged: s.acknowledged.Load(),
		Recovered: s.recovered.Load(), Deleted: s.deleted.Load(),
		Retried: s.retried.Load(), DeadLettered: s.deadLettered.Load(), Suspects: s.suspects.Load(), Late: s.late.Load(),
		Trimmed: s.trimmed.Load(),
	}
}
