package producer

import "time"

// exchanged counts one request to a node, and tells the observer. began is only
// set when there is one.
func (p *Producer) exchanged(addr string, part []*entry, began time.Time) {
	p.stats.exchanges.Add(1)
	p.stats.attempts.Add(uint64(len(part)))
	confirmed := 0
	var elsewhere []RedirectedEvent
	for _, e := range part {
		switch e.verdict.kind {
		case stored:
			confirmed++
			if e.drops.Records > 0 {
				p.dropped(e)
			}
		case redirected:
			p.stats.redirects.Add(1)
			if n := len(elsewhere); n > 0 && elsewhere[n-1].StreamKey == e.key {
				elsewhere[n-1].Messages++
				continue
			}
			elsewhere = append(elsewhere, RedirectedEvent{StreamKey: e.key, To: e.verdict.addr, Ask: e.verdict.ask, Messages: 1})
		default:
		}
	}
	if p.observing == nil {
		return
	}
	notify(p.observing, Observer.Exchanged, ExchangedEvent{
		Addr: addr, Messages: len(part), Stored: confirmed, RoundTrip: time.Since(began),
	})
	for _, event := range elsewhere {
		notify(p.observing, Observer.Redirected, event)
	}
}

// dropped counts what was removed for e, and warns when somebody would have read it.
func (p *Producer) dropped(e *entry) {
	p.stats.countDrops(e.shard, e.drops)
	notify(p.observing, Observer.Dropped, DroppedEvent{Shard: e.shard, StreamKey: e.key, Drops: e.drops})
	if e.drops.Unread == 0 {
		return
	}
	now := time.Now().UnixNano()
	last := p.warned.Load()
	if now-last >= dropWarning.Nanoseconds() && p.warned.CompareAndSwap(last, now) {
		p.cfg.Logger.Warn("unread records are dropped: a shard has reached MaxStreamLength and its consumers are behind",
			"stream", p.cfg.Stream, "shard", e.shard, "dropped", e.drops.Records, "unread", e.drops.Unread)
	}
}
