package engine

import "time"

// At load, requests are gathered for a moment: the fewer cycles there are, the less
// of the time goes into round trips to the store. A cycle that has answered at least
// gatherFrom is load. The next one then begins when as many wait again, gatherMax at
// most, or after gatherTime.
const (
	gatherFrom = 16
	gatherMax  = 64
	gatherTime = time.Millisecond
)

// gathering is what the last cycle tells about the next one.
type gathering struct {
	// crowd is how many the last cycle answered, until how long those that follow
	// are waited for.
	crowd int
	until time.Duration
}

// served notes a cycle that has ended well.
func (g *gathering) served(n int, now time.Duration) {
	g.crowd, g.until = n, now+gatherTime
}

// gathers reports whether the next cycle waits for more requests.
func (e *Engine) gathers(in Input) bool {
	g := &e.gathering
	return g.crowd >= gatherFrom && in.Mono < g.until && len(e.queue) > 0 && len(e.queue) < min(g.crowd, gatherMax)
}
