package producer

// cohort is what was taken between two flushes.
type cohort struct {
	open int           // messages without an outcome
	done chan struct{} // closed when sealed and none is open
}

// cohorts lets a flush wait for what was taken before it and for nothing else.
// The last one takes what comes; those before it are sealed and not done.
type cohorts []*cohort

func (c *cohorts) begin() { *c = append(*c, &cohort{done: make(chan struct{})}) }

func (c *cohorts) join(e *entry) {
	e.cohort = (*c)[len(*c)-1]
	e.cohort.open++
}

func (c *cohorts) leave(e *entry) {
	of := e.cohort
	e.cohort = nil
	of.open--
	if of.open > 0 || of == (*c)[len(*c)-1] {
		return
	}
	close(of.done)
	kept := (*c)[:0]
	for _, one := range *c {
		if one != of {
			kept = append(kept, one)
		}
	}
	clear((*c)[len(kept):])
	*c = kept
}

// seal begins a new cohort and returns what to wait for: every cohort before it.
func (c *cohorts) seal() []<-chan struct{} {
	if (*c)[len(*c)-1].open > 0 {
		c.begin()
	}
	waits := make([]<-chan struct{}, 0, len(*c)-1)
	for _, one := range (*c)[:len(*c)-1] {
		waits = append(waits, one.done)
	}
	return waits
}
