package producer

import "errors"

// chains knows for each unit of which a message has failed, and is about to be
// told so, the first that did. What stands behind it is not sent. Once its future is done the
// unit is free again: whoever sends more then has had the chance to know.
// It is guarded by sender.mu.
type chains map[unit]*entry

// fail ends e with err.
func (c chains) fail(e *entry, err *PublishError) {
	e.fail(err)
	if head := c[e.unit]; head == nil || e.index < head.index {
		c[e.unit] = e
	}
}

// behind returns the error for e when it stands behind a message that has
// failed, nil if it does not.
func (c chains) behind(e *entry) *PublishError {
	if len(c) == 0 {
		return nil
	}
	if head := c[e.unit]; head != nil && head.index < e.index {
		return ErrEarlierFailed.because(head.err)
	}
	return nil
}

// told frees the unit of e if e is the first that has failed.
func (c chains) told(e *entry) {
	if c[e.unit] == e {
		delete(c, e.unit)
	}
}

// closedBecause joins the closing of the producer with the cause of err.
func closedBecause(err *PublishError) error { return errors.Join(ErrClosed, err.Err) }
