package service

import (
	"context"

	"github.com/redis-stream-coordinator/rsc/core/port"
)

// RepairIndex has the store make its lists anew from the records that there are,
// where it keeps an index apart from them; a store without one has nothing to
// repair. It may take long, and can be repeated.
// Errors: protocol.ErrStoreUnavailable, ErrTerminating.
func (c *Coordinator) RepairIndex(ctx context.Context) (port.Repair, error) {
	if err := c.open(nil); err != nil {
		return port.Repair{}, err
	}
	store, indexed := c.ports.Store.(port.Repairer)
	if !indexed {
		return port.Repair{}, nil
	}
	done, err := store.RepairIndex(ctx)
	if done != (port.Repair{}) {
		c.cfg.Logger.Warn("the index of the metadata store was repaired", "added", done.Added, "removed", done.Removed)
	}
	if err != nil {
		return done, c.storeError(ctx, "repair the index", err)
	}
	return done, nil
}

// repairAfterLoss repairs the index beside the event loop: it may have been on the
// one of several servers that lost what it held, and the records on others. The
// groups that are listed are corrected before it, since that is urgent, and those
// that it brings to light after it.
func (c *Coordinator) repairAfterLoss() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.repairing || c.closed.Load() {
		return
	}
	c.repairing = true
	c.owned.Add(1)
	go func() {
		defer c.owned.Done()
		defer func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.repairing = false
		}()
		c.correctAfterLoss(c.closing)
		// Trouble was logged, and an operator can repair it again.
		_, _ = c.RepairIndex(c.closing)
		c.correctAfterLoss(c.closing)
	}()
}
