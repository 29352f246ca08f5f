package main

import (
	"context"
	"fmt"
)

// Targets, as ratios within one run.
const (
	consumeOfRaw       = 0.5
	consumeOfWatermill = 7
	manyOfOne          = 4
	syncOfRaw          = 0.85
	asyncOfRaw         = 0.7
	latencyOfRaw       = 2
	// takeoverSeconds is the one target that is a time.
	takeoverSeconds = 5
	// smallPayload is up to what size the peers spend their time on records and
	// not on bytes. Above it even the ceiling is not consumeOfWatermill times as
	// fast twice over.
	smallPayload = 1024
)

// maxRunBytes bounds the payloads of one run.
const maxRunBytes = 128 << 20

// unit is what a case's figure is counted in.
type unit struct {
	name string
	// digits are those behind the point.
	digits int
}

var (
	perSecond    = unit{"records/s", 0}
	milliseconds = unit{"ms", 3}
	seconds      = unit{"s", 3}
)

// sample is what one run of one candidate came to.
type sample struct {
	// value is the figure, in the unit of the case.
	value float64
	// p99 is the 99th percentile where value is a median of many, 0 elsewhere.
	p99 float64
	cost
	verdict
}

// candidate is one of those that are compared.
type candidate struct {
	name string
	run  func(ctx context.Context, b *bench) (sample, error)
}

// benchCase is a comparison.
type benchCase struct {
	name       string
	unit       unit
	candidates []candidate
	gates      []gate
	// crash says that a process dies in it, so that some records may be handled
	// again.
	crash bool
}

// gate is a target: the figure of ours, divided by that of peer where one is
// named, is at least, or at most, limit.
type gate struct {
	ours, peer string
	atMost     bool
	limit      float64
}

// cases returns what the settings ask for, in the order of the report.
func cases(s settings) []benchCase {
	var all []benchCase
	for _, payload := range s.payloads {
		for _, shards := range s.shards {
			all = append(all, consumeCase(s, shards, payload))
		}
	}
	all = append(all, sleepCase(), spinCase())
	for _, shards := range s.shards {
		all = append(all, latencyCase(s, shards))
	}
	all = append(all, takeoverCase(1), takeoverCase(16), crashCase(s))
	for _, payload := range s.payloads {
		for _, shards := range s.shards {
			all = append(all, syncCase(s, shards, payload), pipelineCase(s, shards, payload))
		}
	}
	if s.only == nil {
		return all
	}
	var wanted []benchCase
	for _, c := range all {
		if s.only.MatchString(c.name) {
			wanted = append(wanted, c)
		}
	}
	return wanted
}

func shape(what string, shards, payload int) string {
	return fmt.Sprintf("%s, %s, %d B", what, shardsText(shards), payload)
}

func shardsText(n int) string {
	if n == 1 {
		return "1 shard"
	}
	return fmt.Sprintf("%d shards", n)
}

// recordsFor returns how many records a run has: one in slowness of what was
// asked for, and not more than memory should hold.
func recordsFor(s settings, payload, slowness int) int {
	return max(minRecords, min(s.records/slowness, maxRunBytes/payload))
}
