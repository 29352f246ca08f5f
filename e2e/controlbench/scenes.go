package main

import (
	"context"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// measured are the figures of one round, by their names.
type measured map[string]float64

// stage is a scene that is set up.
type stage interface {
	// round takes each figure once.
	round(ctx context.Context, n int) (measured, error)
	close(ctx context.Context) error
}

// scene is something that is measured.
type scene struct {
	name    string
	open    func(ctx context.Context, b *bench) (stage, error)
	targets []target
	// notes are figures without a target.
	notes []note
}

// sizes are those of the groups that are measured.
type sizes struct {
	// members and shards are those of the group whose rates are measured.
	members, shards int
	// In the scene size a small and a large group are compared, with so many shards
	// for each member.
	smallMembers, largeMembers, shardsEach int
	// In the scene convergence a group starts, one member joins it, and that one
	// leaves, so often in a round.
	groupMembers, groupShards, cycles int
	stormMembers, stormShards         int
	memoryMembers, memoryShards       int
	// handOvers is how many hand-overs a round has at least.
	handOvers uint64
}

// full are those that the targets speak of. Only tests take others.
var full = sizes{
	members: 1000, shards: 10_000,
	smallMembers: 100, largeMembers: 10_000, shardsEach: 6,
	groupMembers: 10, groupShards: 900, cycles: 10,
	stormMembers: 1000, stormShards: 10_000,
	memoryMembers: 10_000, memoryShards: protocol.MaxShards,
	handOvers: 100,
}

// target is what a figure has to be, divided by that of peer where one is named.
type target struct {
	what         string
	figure, peer string
	unit         unit
	atMost       bool
	limit        float64
}

type note struct {
	figure string
	unit   unit
}

// unit is what a figure is counted in.
type unit struct {
	name string
	// digits are those behind the point.
	digits int
}

var (
	perSecond = unit{"/s", 0}
	millis    = unit{"ms", 1}
	micros    = unit{"µs", 2}
	megabytes = unit{"MB", 1}
	kilobytes = unit{"kB", 1}
	count     = unit{"", 0}
	perOne    = unit{"B", 0}
	ratio     = unit{"", 2}
)

func (t target) met(value float64) bool {
	if t.atMost {
		return value <= t.limit
	}
	return value >= t.limit
}

// scenes returns what the settings ask for, in the order of the report.
func scenes(s settings) []scene {
	all := []scene{
		{
			name: "keepalives over HTTP", open: openKeepalives,
			targets: []target{
				{what: "keepalives, 1,000 members, 10,000 shards, Redis, HTTP", figure: "rsc", peer: "kfake", unit: perSecond, limit: 1},
				{what: "the same beside a bare handler", figure: "rsc", peer: "bare", unit: perSecond, limit: 0.6},
				{what: "script calls for 1,000 of them", figure: "script calls", unit: unit{"", 1}, atMost: true, limit: 50},
				{what: "bytes of aggregates moved meanwhile", figure: "aggregate bytes", unit: count, atMost: true, limit: 0},
			},
			notes: []note{{"p99", millis}, {"CPU with its callers", micros}, {"Redis bytes", perOne}},
		},
		{
			name: "service port", open: openPort,
			targets: []target{{what: "the same at the service port in process", figure: "rsc", unit: perSecond, limit: 100_000}},
			notes:   []note{{"CPU with its callers", micros}},
		},
		{
			name: "size", open: openSize,
			targets: []target{{what: "CPU of a heartbeat, 10,000 members beside 100", figure: "10,000 members", peer: "100 members", unit: micros, atMost: true, limit: 1.3}},
		},
		{
			name: "flapping", open: openFlapping,
			targets: []target{{what: "heartbeat p99 beside a flapping group of 10,000 × 1,000", figure: "p99", unit: millis, atMost: true, limit: 5}},
			notes:   []note{{"flaps", perSecond}, {"saves for each", unit{"", 1}}, {"worst", millis}, {"p99 alone", millis}},
		},
		{
			name: "join storm", open: openStorm,
			targets: []target{
				{what: "1,000 members join within 100 ms, 10,000 shards: balanced", figure: "balanced", unit: millis, atMost: true, limit: 1000},
				{what: "revocations in it", figure: "revocations", unit: count, atMost: true, limit: 0},
				{what: "saves in it", figure: "saves", unit: count, atMost: true, limit: 20},
			},
		},
		{
			name: "convergence", open: openConvergence,
			targets: []target{
				{what: "one joins 10 members with 900 shards, p99", figure: "join", unit: millis, atMost: true, limit: 50},
				{what: "one leaves them, p99", figure: "leave", unit: millis, atMost: true, limit: 20},
				{what: "10 start together, p99", figure: "start", unit: millis, atMost: true, limit: 200},
				{what: "shards handed out more than once in these", figure: "detours", unit: count, atMost: true, limit: 0},
			},
		},
		{
			name: "hand-over", open: openHandOver,
			targets: []target{{what: "last record at the old owner to first at the new, p99", figure: "p99", unit: millis, atMost: true, limit: 50}},
			notes:   []note{{"median", millis}, {"hand-overs", count}, {"records out of order", count}},
		},
		{
			name: "memory", open: openMemory,
			targets: []target{{what: "coordinator with 10,000 members, 65,536 shards", figure: "members", unit: megabytes, atMost: true, limit: 250}},
			notes:   []note{{"empty", megabytes}, {"all of them waiting", megabytes}, {"each waiting member", kilobytes}},
		},
	}
	if len(s.stores) > 0 {
		all = append(all, storesScene(s.stores))
	}
	if s.only == nil {
		return all
	}
	var wanted []scene
	for _, one := range all {
		if s.only.MatchString(one.name) {
			wanted = append(wanted, one)
		}
	}
	return wanted
}
