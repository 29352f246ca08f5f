package producer

import "context"

// TraceField is the field of a record that carries the trace which it belongs
// to, in the form of the W3C header of that name.
const TraceField = "traceparent"

// prepare sets what e needs to know of its message before it is sent.
func (p *Producer) prepare(ctx context.Context, e *entry) {
	e.unit = unitOf(e.msg)
	e.size = e.msg.size(p.cfg.OmitKeyField)
	if p.cfg.TraceParent == nil || e.msg.has(TraceField) {
		return
	}
	if e.trace = p.cfg.TraceParent(ctx); e.trace != "" {
		e.size += len(TraceField) + len(e.trace)
	}
}

// has reports whether one of the message's own fields has this name.
func (m *Message) has(name string) bool {
	for i := range m.Fields {
		if m.Fields[i].Name == name {
			return true
		}
	}
	return false
}
