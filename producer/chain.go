package producer

import "errors"

// chain knows for each unit the first of its messages that has failed. Entries
// are shown to it in order. The zero value is ready to use.
type chain struct {
	broken map[unit]*PublishError
}

// add notes that e has failed.
func (c *chain) add(e *entry) {
	if c.broken == nil {
		c.broken = make(map[unit]*PublishError)
	}
	if _, known := c.broken[e.unit]; !known {
		c.broken[e.unit] = e.err
	}
}

// whole reports that no message has failed.
func (c *chain) whole() bool { return len(c.broken) == 0 }

// cause returns the error of the failed message that e stands behind, nil if
// there is none.
func (c *chain) cause(e *entry) *PublishError {
	if c.whole() {
		return nil
	}
	return c.broken[e.unit]
}

// closedBecause joins the closing of the producer with the cause of err.
func closedBecause(err *PublishError) error { return errors.Join(ErrClosed, err.Err) }
