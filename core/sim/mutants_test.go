package sim

import (
	"flag"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/internal/rules"
)

var (
	mutants    = flag.Bool("mutants", false, "show for every rule that the simulator notices when it is switched off")
	onlyMutant = flag.String("mutant", "", "try only mutants whose name contains this")
)

// maxMutantSeeds is within how many seeds a mutant must be caught.
const maxMutantSeeds = 2000

// mutant is a rule that is switched off, and the schedules in which that should
// be noticed.
type mutant struct {
	name string
	rule rules.Rule
	// section of the design that states the rule.
	section string
	shapes  []string
	change  func(*Shape)
	// script names the story that catches what random schedules do not, because
	// another rule carries it as well or because it needs an exact sequence.
	script string
}

// drifting lets clocks run apart by more than the margin allows for.
func drifting(s *Shape) { s.Drift = 0.06 }

// forgetful loses stamps so often, and looks so seldom, that renewals are lost before
// everybody has seen them.
func forgetful(s *Shape) { s.LoseStamps, s.Tick = 0.3, 2*time.Second }

// resharding are the shapes in which the shard count changes.
var resharding = []string{"reshard", "reshardslow", "regroup"}

var allMutants = []mutant{
	{name: "answer before save", rule: rules.SaveBeforeAnswer, section: "4.1", shapes: []string{"multi", "churn"}},
	{name: "unreported grant counts as free", rule: rules.UnreportedIsHeld, section: "4.2", shapes: []string{"member", "churn"}},
	{name: "REVOKED at any epoch frees", rule: rules.RevokedNeedsGrantEpoch, section: "4.2", shapes: []string{"churn", "healthy", "wait"}, script: "group: revoked_of_an_earlier_grant"},
	{name: "omission at any epoch frees", rule: rules.OmissionNeedsRevokeEpoch, section: "4.2", shapes: []string{"churn", "healthy", "wait"}},
	{name: "leave frees at once", rule: rules.LeavingHolds, section: "4.2", shapes: []string{"churn", "wait"}},
	{name: "revoked shard is un-revoked", rule: rules.NeverUnrevoked, section: "4.2", shapes: []string{"churn", "wait"}, script: "group: target_returns_to_the_holder"},
	{name: "rebalance timeout within the lease", rule: rules.TimeoutSparesLease, section: "4.2", shapes: nil, script: "engine: TestTheTimeoutSparesTheLease"},
	{name: "rebalance timeout restarts with each target", rule: rules.TimeoutKeepsItsEpoch, section: "4.8", shapes: nil, script: "engine: timeout_keeps_its_epoch"},
	{name: "no new epoch per change", rule: rules.NewEpochPerChange, section: "4.3", shapes: []string{"churn", "member"}},
	{name: "only the newest epoch is valid", rule: rules.OlderEpochIsValid, section: "4.3", shapes: []string{"healthy", "churn"}},
	{name: "stale requests are applied", rule: rules.StaleIsRefused, section: "4.3", shapes: []string{"churn", "healthy", "wait"}, script: "group: stale_request"},
	{name: "restart frees old grants", rule: rules.RestartHoldsOldGrants, section: "4.4", shapes: []string{"twins"}},
	{name: "rejoin displaces", rule: rules.RejoinNeverDisplaces, section: "4.4", shapes: []string{"twins"}},
	{name: "no tombstones", rule: rules.EndedStaysEnded, section: "4.4", shapes: []string{"twins", "member"}},
	{name: "leaver is fenced for a claim", rule: rules.LeaverIsNotFenced, section: "4.4", shapes: nil, script: "group: leaver_holds_what_it_drains"},
	{name: "an old client's leave frees what it does not list", rule: rules.LegacyLeaveHolds, section: "4.4", shapes: nil, script: "group: legacy_leave"},
	{name: "any answer counts", rule: rules.MatchAnswer, section: "4.5", shapes: []string{"wait", "healthy"}},
	{name: "RETRY renews the lease", rule: rules.RetryRenewsNothing, section: "4.5", shapes: []string{"liveloss", "wait", "multi"}},
	{name: "lease from receipt", rule: rules.LeaseFromSending, section: "4.5", shapes: []string{"churn", "multi", "healthy"}},
	{name: "no lease margin", rule: rules.LeaseMargin, section: "4.5", shapes: []string{"member", "churn", "wait"}, change: drifting},
	{name: "no self-fencing", rule: rules.SelfFencing, section: "4.5", shapes: []string{"member"}},
	{name: "a lease is resumed", rule: rules.LeaseNotResumed, section: "4.5", shapes: []string{"churn", "member", "wait", "multi"}, script: "member: lease_is_never_resumed"},
	{name: "expiry is unconditional", rule: rules.ExpiryIsConditional, section: "4.5", shapes: []string{"multi", "legacy", "wait", "healthy"}},
	{name: "renewal is unconditional", rule: rules.RenewalIsConditional, section: "4.5", shapes: []string{"multi", "legacy", "healthy"}},
	{name: "only a greater stamp renews", rule: rules.AnyChangeRenews, section: "4.5", shapes: []string{"multi", "liveloss", "failover"}},
	{name: "a missing stamp ends a lease", rule: rules.LossIsMarked, section: "4.5", shapes: []string{"liveloss"}, change: forgetful},
	{name: "a fresh coordinator trusts old stamps", rule: rules.ClockStartsWithProcess, section: "4.5", shapes: []string{"multi"}},
	{name: "a gap in the polling is ignored", rule: rules.GapRestartsClocks, section: "4.5", shapes: []string{"liveloss", "multi"}, script: "engine: gap_restarts_clocks"},
	{name: "old requests are applied", rule: rules.RequestsAge, section: "4.5", shapes: []string{"multi", "twins", "wait"}, script: "engine: requests_age"},
	{name: "a shorter lease counts at once", rule: rules.ShorterLeaseWaits, section: "4.5", shapes: []string{"retime"}},
	{name: "another instance is not noticed", rule: rules.InstanceIsNoticed, section: "4.7", shapes: []string{"failchurn", "failover"}},
	{name: "the ring is not compared", rule: rules.RingIsCompared, section: "4.7", shapes: []string{"failchurn"}, script: "engine: ring"},
	{name: "reports are not heard", rule: rules.ReportIsNoticed, section: "4.7", shapes: []string{"failover"}, script: "engine: report"},
	{name: "epochs do not jump", rule: rules.CorrectionJumps, section: "4.7", shapes: []string{"failchurn", "failover"}},
	{name: "grants during a correction", rule: rules.CorrectionGrantsNothing, section: "4.7", shapes: []string{"failchurn", "failover"}, script: "engine: failover"},
	{name: "answers during a correction carry the ledger", rule: rules.CorrectionKeepsOwned, section: "4.7", shapes: []string{"failchurn", "failover"}, script: "engine: failover"},
	{name: "unread shards keep their token", rule: rules.CorrectionRenewsTokens, section: "4.7", shapes: []string{"failchurn", "failover"}, script: "engine: unread_shard_gets_a_new_token"},
	{name: "a correction does not wait for members", rule: rules.CorrectionWaitsSync, section: "4.7", shapes: []string{"failchurn", "failover"}, script: "engine: correction_waits_for_all"},
	{name: "a correction does not wait a lease", rule: rules.CorrectionWaitsLease, section: "4.7", shapes: []string{"failchurn", "failover"}},
	{name: "routes before shards", rule: rules.ShardsBeforeRoutes, section: "4.9", shapes: resharding},
	{name: "the count changes without the version", rule: rules.VersionWithCount, section: "4.9", shapes: resharding},
	{name: "groups begin at the end of new shards", rule: rules.NewShardsFromStart, section: "4.9", shapes: resharding},
	{name: "removed shards are not read", rule: rules.RemovedShardsAreRead, section: "4.9", shapes: resharding},
	{name: "routes are not waited for", rule: rules.RoutesRunOut, section: "4.9", shapes: resharding},
	{name: "nobody notices that a stream lost its last writes", rule: rules.LostWritesAreTold, section: "4.9", shapes: []string{"lostwrites"}, script: "stream: stream_went_back"},
	{name: "a shard is removed under its readers", rule: rules.ReadersLetGo, section: "4.9", shapes: resharding},
	{name: "groups that are missing on a shard are not waited for", rule: rules.GroupsAreOnShards, section: "4.9", shapes: resharding},
	{name: "a drain goes by the lag", rule: rules.DrainByCursor, section: "4.9", shapes: resharding},
	{name: "a shard is removed without a second look", rule: rules.RetireProvesAgain, section: "4.9", shapes: resharding},
	{name: "any stream of that name is removed", rule: rules.RetireKnowsStream, section: "4.9", shapes: resharding},
	{name: "a shard that is wanted again is not marked", rule: rules.ProvisionRenews, section: "4.9", shapes: resharding},
	{name: "a rollback creates nothing", rule: rules.RollbackProvisions, section: "4.9", shapes: resharding},
	{name: "nobody looks for shards that came late", rule: rules.StraysAreFound, section: "4.9", shapes: resharding},
	{name: "a group follows an older record", rule: rules.LayoutsDoNotGoBack, section: "4.9", shapes: resharding},
	{name: "a removed shard leaves the ledger", rule: rules.RemovedIsHeld, section: "4.9", shapes: resharding, script: "group: shards_are_removed"},
	{name: "a group created again grants at once", rule: rules.RecreatedGroupWaits, section: "4.7", shapes: []string{"recreate"}},
}

// catch is how a mutant was noticed.
type catch struct {
	mutant
	seeds int
	by    string
	shape string
}

// quickMutants are noticed within a few seeds. They are tried with the ordinary
// tests, so that a simulator which notices nothing does not wait for make mutants.
var quickMutants = []string{"answer before save", "only the newest epoch is valid", "no self-fencing"}

// TestMutants switches each rule off and demands that it is noticed.
func TestMutants(t *testing.T) {
	caught := make([]catch, len(allMutants))
	var workers sync.WaitGroup
	slots := make(chan struct{}, runtime.GOMAXPROCS(0))
	for i, m := range allMutants {
		if !strings.Contains(m.name, *onlyMutant) || (!*mutants && !slices.Contains(quickMutants, m.name)) {
			continue
		}
		workers.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			caught[i] = hunt(m)
		})
	}
	workers.Wait()
	fmt.Printf("%-50s %-5s %6s  %-10s %s\n", "mutant", "rule", "seeds", "shape", "caught by")
	n := 0
	for _, c := range caught {
		switch {
		case c.name == "":
			continue
		case c.by == "" && c.script == "":
			t.Errorf("%s: not noticed within %d seeds, and no story catches it", c.name, c.seeds)
		case c.by == "":
			fmt.Printf("%-50s %-5s %6s  %-10s %s\n", c.name, c.section, "-", "script", c.script)
		default:
			fmt.Printf("%-50s %-5s %6d  %-10s %s\n", c.name, c.section, c.seeds, c.shape, c.by)
		}
		n++
	}
	fmt.Printf("mutants: %d\n", n)
}

// hunt plays seeds of the mutant's shapes in turn until one is noticed.
func hunt(m mutant) catch {
	c := catch{mutant: m}
	limit := maxMutantSeeds
	if m.script != "" {
		// It is caught anyway; a few seeds show whether chance finds it as well.
		limit = min(limit, 100)
	}
	if len(m.shapes) == 0 {
		return c
	}
	for c.seeds < limit {
		shape := m.shapes[c.seeds%len(m.shapes)]
		c.seeds++
		r := Run(uint64(c.seeds), Options{Shape: shape, Rules: rules.Without(m.rule), Change: m.change})
		if r.Violation != "" {
			c.by, c.shape = property(r.Violation), shape
			return c
		}
	}
	return c
}

// property names what a violation breaks.
func property(violation string) string {
	for _, p := range []struct{ text, name string }{
		{"contradicts itself", "no state contradicts itself"}, {"two readers", "one reader"}, {"in flight", "no reader beside work in flight"}, {"which no save gave it", "recorded before answered"},
		{"although it is healthy", "healthy members are not fenced"}, {"not settled", "all comes to rest"},
		{"displaces another", "a rejoin displaces nobody"}, {"under token", "tokens rise"}, {"after epoch", "tokens rise"}, {"goes from", "epochs never go back"},
		{"live shard is removed", "no live shard is removed"}, {"deletes record", "nothing is deleted that is missed"},
		{"is removed while", "nobody reads what is removed"},
		{"points at a", "routes point at shards"}, {"of the stream stands for", "a version means one thing"}, {"not handled", "every record is handled"},
		{"is there again", "removed keys stay away"}, {"is under way", "what is waited for is named"}, {"waits without need", "nothing waits without need"},
	} {
		if strings.Contains(violation, p.text) {
			return p.name
		}
	}
	return violation
}
