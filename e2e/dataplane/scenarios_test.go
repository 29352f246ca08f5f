package dataplane

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis-stream-coordinator/rsc/e2e/faultkit"
)

// scenarios lists all of them. Their ids are those of the reports and requests
// that they come from.
func scenarios() []scenario {
	all, single, cluster := faultkit.Kinds(), faultkit.Standalone(), []faultkit.Kind{faultkit.Cluster}
	return []scenario{
		{id: "plain", what: "nothing goes wrong", kinds: all, run: plain},
		{id: "B1-flush", what: "everything is flushed, the coordinator's records are elsewhere", kinds: all, run: loss(flushAll, resume, setting{})},
		{id: "B1-polled", what: "everything is flushed where shards share a connection", kinds: all, run: loss(flushAll, resume, setting{defaults: plan{MaxBlocked: -1}})},
		{id: "B1-restart", what: "the server comes back empty", kinds: all, run: loss(restartEmpty, resume, setting{})},
		{id: "B1-all", what: "everything is flushed, the coordinator's records too", kinds: single, run: loss(flushAll, lease+resume, setting{metaThere: true, declared: true})},
		{id: "B3", what: "the groups are destroyed", kinds: all, run: loss(destroyGroups, resume, setting{})},
		{id: "B5-del", what: "the streams are deleted under blocked readers", kinds: all, run: loss(deleteStreams, resume, setting{})},
		{id: "B5-unlink", what: "the streams are unlinked under blocked readers", kinds: all, run: loss(unlinkStreams, resume, setting{})},
		{id: "B7-B8", what: "closed while a record arrives", kinds: all, run: closeRace},
		{id: "B9", what: "64 shards and a small pool", kinds: all, run: manyShards},
		{id: "B12-type", what: "an error that does not end", kinds: all, run: brokenStreams},
		{id: "B12-away", what: "the server is away for 4 s", kinds: all, run: serverAway},
		{id: "B13", what: "replies of reads are lost", kinds: all, run: lostReplies(plan{})},
		{id: "B13-polled", what: "replies of reads are lost where shards share a connection", kinds: all, run: lostReplies(plan{MaxBlocked: -1})},
		{id: "cut", what: "all connections break, again and again", kinds: all, run: cutConnections},
		{id: "B15", what: "panics, foreign entries, a restart", kinds: all, run: badRecords},
		{id: "B18-B25-E2", what: "a member is killed that holds records", kinds: all, run: killedHolding},
		{id: "B19", what: "pending records are deleted", kinds: all, run: deletedPending},
		{id: "B23-E2", what: "handlers take five leases", kinds: all, run: slowHandlers},
		{id: "B26", what: "a member is slow", kinds: all, run: slowMember},
		{id: "B27-E6", what: "a record ends the process", kinds: all, run: deadlyRecord},
		{id: "E6", what: "records fail for ever, or at first", kinds: all, run: failingRecords},
		{id: "B31-E8", what: "the owners trim", kinds: all, run: trimmed},
		{id: "B33", what: "streams are full", kinds: all, run: overTheCap},
		{id: "B36-E8", what: "records are large", kinds: all, run: largeRecords},
		{id: "B38-E1", what: "members come and go", kinds: all, run: rebalances},
		{id: "B39", what: "one shard, many keys", kinds: all, run: lanes},
		{id: "B44-E5", what: "replies of XADD are lost", kinds: all, run: unansweredSends(false)},
		{id: "B44-async", what: "replies of XADD are lost to futures", kinds: all, run: unansweredSends(true)},
		{id: "B44-freeze", what: "the server stands still", kinds: all, run: frozenServer},
		{id: "B46", what: "the server is not there", kinds: all, run: deadServer},
		{id: "B50-E9", what: "a cluster without hash tags", kinds: cluster, run: noCeremony},
		{id: "B53-E9", what: "all slots move under load", kinds: cluster, run: slotsMove},
		{id: "B54-E9", what: "every master fails over, one is killed", kinds: cluster, run: failovers},
		{id: "E4-evict", what: "the streams are evicted", kinds: single, run: loss(evict, resume, setting{})},
		{id: "E4-old", what: "a failover to an older replica", kinds: cluster, run: oldReplica},
		{id: "B57-E3", what: "asked to end with 500 prefetched", kinds: all, run: prefetched},
		{id: "coordinator", what: "the coordinator is killed and started again", kinds: single, run: coordinatorKilled},
		{id: "frozen", what: "a member is frozen for longer than its lease", kinds: all, run: frozenMember},
	}
}

func TestScenariosHaveNamesOfTheirOwn(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range scenarios() {
		if s.id == "" || s.what == "" || s.run == nil || len(s.kinds) == 0 || seen[s.id] {
			t.Errorf("scenario %q is incomplete, or there twice", s.id)
		}
		seen[s.id] = true
	}
}

// The page says what a scenario is about, to those who read the table.
func TestThePageListsEveryScenario(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "faults.md"))
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for line := range strings.Lines(string(page)) {
		first, _, _ := strings.Cut(strings.TrimPrefix(line, "| "), " |")
		for id := range strings.SplitSeq(first, ", ") {
			if strings.HasPrefix(line, "| `") {
				listed[strings.Trim(id, "`")] = true
			}
		}
	}
	for _, s := range scenarios() {
		if !listed[s.id] {
			t.Errorf("docs/faults.md does not list scenario %s", s.id)
		}
		delete(listed, s.id)
	}
	for id := range listed {
		t.Errorf("docs/faults.md lists %s, which is no scenario", id)
	}
}
