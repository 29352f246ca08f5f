package sim

import (
	"math/rand/v2"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/internal/rules"
)

// Result is what became of one seed.
type Result struct {
	Seed  uint64
	Shape string
	// Violation says what went wrong, empty if nothing did.
	Violation string
	// Trace tells the last steps; only kept where it was asked for.
	Trace string
	// Hash is that of the whole trace: the same seed gives the same one.
	Hash   uint64
	Counts Counts
}

// Options of a run.
type Options struct {
	// Shape is the name of a shape; empty draws one by the seed.
	Shape string
	// TraceLines is how many lines of the trace are kept, 0 for none.
	TraceLines int
	// Rules switches rules off, to show that a schedule notices.
	Rules rules.Set
	// Change adapts the shape, after the rates were drawn; nil for no change.
	Change func(*Shape)
}

// Run plays one seed.
func Run(seed uint64, o Options) Result {
	rng := rand.New(rand.NewPCG(seed, 0x5eed))
	shape := Shapes[int(seed%uint64(len(Shapes)))]
	for _, s := range Shapes {
		if s.Name == o.Shape {
			shape = s
		}
	}
	shape = shape.drawn(rng)
	// Of a stream of its own, so that the others play as they did without.
	shape.Signals = shape.Coordinators > 1 && rand.New(rand.NewPCG(seed, 0x517)).IntN(2) == 0
	if o.Change != nil {
		o.Change(&shape)
	}
	w := &world{shape: shape, rules: o.Rules, rng: rng, cuts: map[cut]time.Duration{}}
	w.watch.rejoins = map[string]bool{}
	w.trace.keep = o.TraceLines
	w.run()
	return Result{
		Seed: seed, Shape: shape.Name, Violation: w.watch.violation, Trace: w.trace.text(), Hash: w.trace.hash, Counts: w.counts,
	}
}
