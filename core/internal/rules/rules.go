// Package rules can switch single rules of the protocol off, so that tests and
// the simulator can show that each of them is needed: with the rule off, a
// scenario or a schedule must fail. No package outside core can import it, and
// its zero value has every rule on; there is no build tag and no setting.
package rules

// Rule names one rule of the protocol (docs/protocol.md tells their story).
type Rule uint8

// The rules, by the section of the design that states them.
const (
	// 4.1: what an answer carries was saved before.
	SaveBeforeAnswer Rule = iota

	// 4.2: when a shard is free.
	UnreportedIsHeld         // a granted shard that was not reported yet is held
	RevokedNeedsGrantEpoch   // REVOKED counts from an epoch that is at least the grant's
	OmissionNeedsRevokeEpoch // leaving a shard out counts from an epoch that is at least the revocation's
	LeavingHolds             // a leaving member's shards are held until it lets go
	NeverUnrevoked           // a revoked shard is let go before it is granted again
	TimeoutSparesLease       // the rebalance timeout frees nothing before a lease time has passed
	TimeoutKeepsItsEpoch     // a newer target does not restart the rebalance timeout

	// 4.3: member epochs.
	NewEpochPerChange // each change of an assigned set has a new epoch
	OlderEpochIsValid // a member may still send the epoch before a lost answer
	StaleIsRefused    // below that, a request changes nothing

	// 4.4: incarnations.
	RestartHoldsOldGrants // a fresh process waits for the lease of the one before it
	RejoinNeverDisplaces  // a rejoin waits while another incarnation lives
	EndedStaysEnded       // an incarnation that ended never comes back
	LeaverIsNotFenced     // a leaving member is answered whatever it claims
	LegacyLeaveHolds      // a leave without an incarnation frees only what it reports REVOKED

	// 4.5: leases and clocks, the member's side.
	MatchAnswer        // only the answer to the latest request counts
	RetryRenewsNothing // RETRY and refusals renew no lease
	LeaseFromSending   // the lease runs from the sending of the request
	LeaseMargin        // the member takes a margin off its lease
	SelfFencing        // at the end of its lease the member gives up by itself
	LeaseNotResumed    // what it gave up at the end of its lease is never taken up again

	// 4.5: the coordinator's side.
	ExpiryIsConditional    // expiry names the stamps that it relied on
	RenewalIsConditional   // a renewal compares the revision
	AnyChangeRenews        // a stamp that differs restarts the clock
	LossIsMarked           // a stamp that is missing ends no lease: a mark in its place does, a lease later
	ClockStartsWithProcess // a coordinator that has just started counts from then
	GapRestartsClocks      // after a gap in its polling a coordinator counts anew
	ShorterLeaseWaits      // a shorter lease counts after the longest one promised before
	RequestsAge            // a request that waited too long is not applied

	// 4.7: a store that went backwards.
	InstanceIsNoticed       // another instance of the store opens a correction
	RingIsCompared          // so does a save that is missing from the ring
	ReportIsNoticed         // and a member that knows a later version
	CorrectionJumps         // epochs jump beyond everything that is known
	CorrectionGrantsNothing // nothing is granted during a correction
	CorrectionKeepsOwned    // an answer carries only what the request says it owns
	CorrectionRenewsTokens  // what a member does not read gets a new token
	CorrectionWaitsSync     // it ends when every member is in sync
	CorrectionWaitsLease    // and not before a lease time has passed
	RecreatedGroupWaits     // a group that is deleted under its members and created again waits for their leases

	// 4.9: a change of the shard count.
	ShardsBeforeRoutes   // producers are sent to shards that exist, with all groups on them
	VersionWithCount     // the version changes in the write that changes the count
	NewShardsFromStart   // groups begin at the first record of a new shard
	RemovedShardsAreRead // groups read removed shards until they are empty
	RoutesRunOut         // no shard is removed before the longest routing lease has passed
	LostWritesAreTold    // a stream whose record has lost its last writes tells its groups again, and looks for shards that it forgot
	ReadersLetGo         // a shard is taken from its readers, and they have let go of it, before it is removed
	GroupsAreOnShards    // a shard that one of our groups is missing on is not empty for it
	DrainByCursor        // a shard is empty when all groups have had and acknowledged its last record, whatever the lag is
	RetireProvesAgain    // what removes a shard looks once more, in the same step
	RetireKnowsStream    // and whether it is the stream that was proven
	ProvisionRenews      // an existing shard that is wanted again is marked, so that no proof of before fits it
	RollbackProvisions   // a rollback creates what it goes back to, then switches
	StraysAreFound       // shards that were created late are found and drained
	LayoutsDoNotGoBack   // a group follows a later version of the record only
	RemovedIsHeld        // a removed shard stays in the ledger until its holder has let go
)

// Set is a set of rules that are switched off. The zero value has all on.
type Set uint64

// Without returns the set in which the given rules are off.
func Without(off ...Rule) Set {
	var s Set
	for _, r := range off {
		s |= 1 << r
	}
	return s
}

// Off reports whether r is switched off.
func (s Set) Off(r Rule) bool { return s&(1<<r) != 0 }

// On reports whether r is in force.
func (s Set) On(r Rule) bool { return !s.Off(r) }
