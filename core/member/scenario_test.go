package member

import (
	"testing"

	"github.com/redis-stream-coordinator/rsc/core/internal/rules"
	"github.com/redis-stream-coordinator/rsc/core/internal/scenario"
)

func TestScenarios(t *testing.T) {
	scenario.Files(t, "testdata/*.txt", func(t *testing.T, path string) {
		scenario.Run(t, path, newWorld(0).do)
	})
}

// TestEveryRuleIsNeeded switches each rule off and demands that the story of
// the rule comes out differently.
func TestEveryRuleIsNeeded(t *testing.T) {
	for _, tc := range []struct {
		rule rules.Rule
		name string
		file string
	}{
		{rules.MatchAnswer, "only the answer to the latest request counts", "answer_to_an_earlier_request"},
		{rules.RetryRenewsNothing, "RETRY renews nothing", "retry_renews_nothing"},
		{rules.LeaseFromSending, "the lease runs from the sending", "lease_runs_from_sending"},
		{rules.LeaseMargin, "a margin is taken off the lease", "lease_margin"},
		{rules.SelfFencing, "the member stops by itself", "coordinator_away"},
		{rules.LeaseNotResumed, "a lease is never resumed", "lease_is_not_resumed"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := "testdata/" + tc.file + ".txt"
			if d := scenario.Outcome(t, path, newWorld(0).do); len(d) > 0 {
				t.Fatalf("the story does not hold with all rules on: %v", d)
			}
			if d := scenario.Outcome(t, path, newWorld(rules.Without(tc.rule)).do); len(d) == 0 {
				t.Fatalf("%s comes out the same without the rule", path)
			}
		})
	}
}
