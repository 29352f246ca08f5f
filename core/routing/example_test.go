package routing_test

import (
	"fmt"

	"github.com/redis-stream-coordinator/rsc/core/routing"
)

// A record of customer 17 goes to this stream while "orders" has 8 shards.
func Example() {
	shard := routing.Shard("customer-17", 8)
	fmt.Println(routing.StreamKey("orders", shard))
	// Output: orders:4
}

func ExampleShard() {
	fmt.Println(routing.Shard("order-123", 8))
	fmt.Println(routing.Shard("order-123", 16))
	fmt.Println(routing.Shard("order-123", 0))
	// Output:
	// 5
	// 13
	// -1
}

func ExampleHash() {
	fmt.Println(routing.Hash("hello"))
	// Output: 613153351
}

func ExampleStreamKey() {
	fmt.Println(routing.StreamKey("orders", 3))
	// Output: orders:3
}

// Keys with the same hash tag lie in one slot; the shards of a stream do not.
func ExampleSlot() {
	fmt.Println(routing.Slot("orders:0"), routing.Slot("orders:1"))
	fmt.Println(routing.Slot("{orders}:a"), routing.Slot("{orders}:b"))
	// Output:
	// 8578 12707
	// 105 105
}
