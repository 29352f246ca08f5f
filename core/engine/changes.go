package engine

import "github.com/redis-stream-coordinator/rsc/core/group"

// Changed: the group was written or deleted, perhaps by another coordinator. It is
// a hint, which may come late, more than once, or never. The zero value says that
// anything may have happened.
type Changed struct {
	// Revision and Nonce are those of the write; 0 and empty for a deletion.
	Revision int64
	Nonce    string
}

func (Changed) isHappening() {}

// changed has the group read before anything else is done with it, and at once for
// those who wait to hear of a change; unless the write is one of ours, or one that
// was seen already.
func (e *Engine) changed(h Changed) {
	if h.Nonce != "" && (e.wrote(h.Nonce) || e.remembers(group.Save{Revision: h.Revision, Nonce: h.Nonce})) {
		return
	}
	e.stale = true
}

// wrote reports whether a write is the one that is under way.
func (e *Engine) wrote(nonce string) bool { return e.saving != nil && e.saving.save.Nonce == nonce }

// remembers reports whether a write led to the cached state.
func (e *Engine) remembers(w group.Save) bool {
	return e.view != nil && len(e.view.State.Ring) > 0 && e.view.State.Remembers(w)
}

// looks reports whether the cached state is known to be old, and somebody waits.
func (e *Engine) looks() bool { return e.stale && (len(e.batch) > 0 || e.holds.len() > 0) }
