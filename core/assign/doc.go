// Package assign decides which member of a group shall own which shard.
//
// A plan is balanced (loads differ by at most one), sticky (it takes as few
// shards from their live owners as balance allows, see [MinMoves]), and free
// of detours (a shard on its way to a member that still has room for it goes
// there and nowhere else). It is a pure function over arrays: it keeps no
// state, reads no map, and gives the same result for the same input.
//
// What a member owns is what it holds in the ledger and, of the free shards,
// those that the previous plan meant for it. A shard in transit therefore
// still counts for the member that has not let go of it. Where wishes
// contradict each other, balance comes first, then the fewest moves, then that
// a plan under way is not changed, then stickiness to the previous target.
package assign
