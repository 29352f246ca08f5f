package protocol

import "time"

// Version is the protocol version that a heartbeat must carry.
const Version = 1

// Epoch is a logical time of a group. All epochs of a group (group, assignment,
// member and shard epochs) are drawn from one counter that only grows, so any
// two of them can be compared.
type Epoch int64

// The two epochs that a member sends instead of one it was given.
const (
	// EpochJoin is sent by an incarnation that was not given an epoch yet.
	EpochJoin Epoch = 0
	// EpochLeave is sent by a member that leaves; it repeats it until it holds
	// nothing.
	EpochLeave Epoch = -1
)

// ShardIndex names one shard of a stream, from 0.
type ShardIndex int

// Timings are the three durations that a group lives by. They are part of the
// group's stored state, so every coordinator obeys the same ones.
type Timings struct {
	// HeartbeatInterval is the time between two heartbeats of a member.
	HeartbeatInterval time.Duration
	// Lease is how long a member may read on its shards after its last
	// successful heartbeat, before its own margin (see LeaseMargin).
	Lease time.Duration
	// RebalanceTimeout is how long a member may take to let go of a shard that
	// was revoked.
	RebalanceTimeout time.Duration
}

// DefaultTimings returns the documented defaults: 3 s, 15 s and 60 s.
func DefaultTimings() Timings {
	return Timings{HeartbeatInterval: 3 * time.Second, Lease: 15 * time.Second, RebalanceTimeout: time.Minute}
}

// maxClientTimeout is the age beyond which a request is never applied, whatever
// the lease.
const maxClientTimeout = 5 * time.Second

// ClientTimeout is how long a client waits for an answer (beyond the wait that
// it asked for), and the age at which a coordinator no longer applies a
// request: 5 s, at most a third of the lease.
func ClientTimeout(lease time.Duration) time.Duration {
	return min(maxClientTimeout, lease/3)
}

// LeaseMargin is what a member takes off its lease: a tenth of it, at least
// 500 ms. It is the drift between two clocks that the protocol tolerates.
func LeaseMargin(lease time.Duration) time.Duration {
	return max(500*time.Millisecond, lease/10)
}

// maxHold bounds how long a heartbeat is held, whatever the lease.
const maxHold = 10 * time.Second

// MaxWait caps the wait that a heartbeat asks for: a third of the lease, at
// most 10 s.
func MaxWait(asked, lease time.Duration) time.Duration {
	return max(0, min(asked, maxHold, lease/3))
}

// Validate reports timings that cannot work, all complaints in one error. The
// field names are those of the configuration.
func (t Timings) Validate() error {
	var bad complaints
	if t.HeartbeatInterval < 10*time.Millisecond || t.HeartbeatInterval > time.Hour {
		bad.addf("heartbeat-interval", "is %s, must be between 10ms and 1h", t.HeartbeatInterval)
	}
	if t.Lease < 2*LeaseMargin(t.Lease) {
		bad.addf("member-lease-ttl", "is %s, must be at least 1s: a member takes a margin of 500ms or a tenth off it", t.Lease)
	}
	if t.Lease > 24*time.Hour {
		bad.addf("member-lease-ttl", "is %s, must be at most 24h", t.Lease)
	}
	if t.Lease < 3*t.HeartbeatInterval {
		bad.addf("member-lease-ttl", "is %s, must be at least three times heartbeat-interval (%s)", t.Lease, t.HeartbeatInterval)
	}
	if t.RebalanceTimeout < t.Lease {
		bad.addf("rebalance-timeout", "is %s, must not be shorter than member-lease-ttl (%s)", t.RebalanceTimeout, t.Lease)
	}
	if t.RebalanceTimeout > 24*time.Hour {
		bad.addf("rebalance-timeout", "is %s, must be at most 24h", t.RebalanceTimeout)
	}
	return bad.err()
}
