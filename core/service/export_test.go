package service

// Runners is how many groups have a goroutine here.
func (c *Coordinator) Runners() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.groups)
}

// Remembered is how many streams and lost groups the coordinator remembers
// anything of.
func (c *Coordinator) Remembered() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.known) + len(c.lanes) + len(c.losses.former)
}
