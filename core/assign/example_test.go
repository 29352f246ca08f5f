package assign_test

import (
	"fmt"

	"github.com/redis-stream-coordinator/rsc/core/assign"
)

// Members 0 and 1 own six shards when member 2 joins: each gives one away.
func ExamplePlan() {
	owner := []int32{0, 0, 0, 1, 1, 1}
	fmt.Println(assign.Plan(owner, owner, 3))
	// Output: [0 0 2 1 1 2]
}

// Member 1 has let go of shard 5, member 0 still holds shard 2. Until both are
// with member 2 the plan stays what it was.
func ExamplePlan_underWay() {
	held := []int32{0, 0, 0, 1, 1, assign.None}
	previous := []int32{0, 0, 2, 1, 1, 2}
	fmt.Println(assign.Plan(held, previous, 3))
	// Output: [0 0 2 1 1 2]
}

func ExampleMinMoves() {
	owner := []int32{0, 0, 0, 1, 1, 1}
	fmt.Println(assign.MinMoves(owner, owner, 3))
	// Output: 2
}
