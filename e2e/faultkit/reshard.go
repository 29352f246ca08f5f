package faultkit

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// slotsPerMove is how many slots are under way at a time.
	slotsPerMove = 128
	// keysPerMove is how many keys of a slot are asked for in one go.
	keysPerMove = 100
	// moveTimeout bounds the move of one key.
	moveTimeout = 5 * time.Second
)

// MoveAll moves every slot from each master to the next, with what is in them,
// the way an operator's reshard does: one master after the other, key by key. It
// returns how many keys were moved.
func (s *Server) MoveAll() int {
	s.tb.Helper()
	ctx := s.ctx()
	masters := s.Masters()
	owned := make([][]int, len(masters))
	for i, n := range masters {
		owned[i] = n.slots(ctx)
	}
	keys := 0
	for i, from := range masters {
		to := masters[(i+1)%len(masters)]
		m := reshard{
			from: from, to: to, fromID: from.id(ctx), toID: to.id(ctx),
			others: slices.DeleteFunc(slices.Clone(masters), func(o *Node) bool { return o == from || o == to }),
		}
		for slots := range slices.Chunk(owned[i], slotsPerMove) {
			n, err := m.move(ctx, slots)
			must(s.tb, err)
			keys += n
		}
	}
	s.AwaitWhole()
	return keys
}

// slots lists the slots that the node serves.
func (n *Node) slots(ctx context.Context) []int {
	n.tb.Helper()
	nodes, err := n.Client.ClusterNodes(ctx).Result()
	must(n.tb, err)
	var slots []int
	for line := range strings.Lines(nodes) {
		fields := strings.Fields(line)
		const before = 8 // id, address, flags, master, ping, pong, epoch, link
		if len(fields) <= before || !strings.Contains(fields[2], "myself") {
			continue
		}
		for _, text := range fields[before:] {
			if strings.HasPrefix(text, "[") {
				continue // on its way
			}
			low, high, ranged := strings.Cut(text, "-")
			first, err := strconv.Atoi(low)
			must(n.tb, err)
			last := first
			if ranged {
				last, err = strconv.Atoi(high)
				must(n.tb, err)
			}
			for slot := first; slot <= last; slot++ {
				slots = append(slots, slot)
			}
		}
	}
	return slots
}

// reshard moves slots from one master to another.
type reshard struct {
	from, to     *Node
	fromID, toID string
	// others are told in the end.
	others []*Node
}

// move moves some slots and returns how many keys were in them.
func (m reshard) move(ctx context.Context, slots []int) (keys int, err error) {
	// With IMPORTING the new owner takes a higher epoch in the end, and is believed.
	if err := m.to.setSlots(ctx, slots, "IMPORTING", m.fromID); err != nil {
		return 0, err
	}
	if err := m.from.setSlots(ctx, slots, "MIGRATING", m.toID); err != nil {
		return 0, err
	}
	for _, slot := range slots {
		n, err := m.empty(ctx, slot)
		keys += n
		if err != nil {
			return keys, err
		}
	}
	for _, n := range slices.Concat([]*Node{m.to, m.from}, m.others) {
		if err := n.setSlots(ctx, slots, "NODE", m.toID); err != nil {
			return keys, err
		}
	}
	return keys, nil
}

// empty moves what is in a slot.
func (m reshard) empty(ctx context.Context, slot int) (keys int, err error) {
	host, hostPort, err := net.SplitHostPort(m.to.Addr)
	if err != nil {
		return 0, err
	}
	for {
		names, err := m.from.Client.ClusterGetKeysInSlot(ctx, slot, keysPerMove).Result()
		if err != nil || len(names) == 0 {
			return keys, err
		}
		for _, name := range names {
			if err := m.from.Client.Migrate(ctx, host, hostPort, name, 0, moveTimeout).Err(); err != nil {
				return keys, fmt.Errorf("move %s: %w", name, err)
			}
			keys++
		}
	}
}

func (n *Node) setSlots(ctx context.Context, slots []int, state, id string) error {
	_, err := n.Client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for _, slot := range slots {
			pipe.Do(ctx, "CLUSTER", "SETSLOT", slot, state, id)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("%s: CLUSTER SETSLOT %s: %w", n.Addr, state, err)
	}
	return nil
}
