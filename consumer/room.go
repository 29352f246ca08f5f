package consumer

import "context"

// Room is what a member may have in hand: records and bytes that were read and not
// finished. One half of it is shared out evenly, so that no shard can starve
// another; the other half goes to whoever has a backlog.
//
// Sizes are not known before a read. Each shard expects the largest it has seen
// lately, and one record only while it has seen none. Each shard may have one record
// in any case: a new one must not starve where others have filled the room. So what
// is in hand is at most the bound, and one record of each shard, and beyond that at
// most one read of each shard whose records have grown all of a sudden.

// room keeps the count. It is guarded by the pool's mutex.
type room struct {
	maxRecords int
	maxBytes   int64
	// records and bytes are in hand or booked.
	records int
	bytes   int64
	shards  map[*lanes]struct{}
	// ownRecords and ownBytes are what each shard may have in any case; overRecords
	// and overBytes are what shards have beyond it.
	ownRecords, overRecords int
	ownBytes, overBytes     int64
	// waiting are the shards that wait for room, freed counts what was finished
	// since they were last called.
	waiting map[*lanes]struct{}
	freed   int
}

// share is what one shard has of the room.
type share struct {
	records int
	bytes   int64
	// booked of it are for a read under way.
	booked      int
	bookedBytes int64
	// expect is the size that the next record is expected to have, 0 if unknown.
	expect int64
}

func newRoom(maxRecords int, maxBytes int64) room {
	return room{maxRecords: maxRecords, maxBytes: maxBytes, shards: map[*lanes]struct{}{}, waiting: map[*lanes]struct{}{}}
}

func (r *room) join(l *lanes) {
	r.shards[l] = struct{}{}
	r.divide()
}

// part takes a shard out, with what it still has.
func (r *room) part(l *lanes) {
	if _, there := r.shards[l]; !there {
		return
	}
	r.hold(l, -l.held.records, -l.held.bytes)
	l.held = share{}
	delete(r.shards, l)
	delete(r.waiting, l)
	r.divide()
	r.call()
}

// divide works out anew what each shard may have.
func (r *room) divide() {
	n := max(1, len(r.shards))
	r.ownRecords = max(1, r.maxRecords/2/n)
	r.ownBytes = max(1, r.maxBytes/2/int64(n))
	r.overRecords, r.overBytes = 0, 0
	for l := range r.shards {
		r.overRecords += max(0, l.held.records-r.ownRecords)
		r.overBytes += max(0, l.held.bytes-r.ownBytes)
	}
}

// hold changes what a shard has.
func (r *room) hold(l *lanes, records int, bytes int64) {
	h := &l.held
	r.overRecords -= max(0, h.records-r.ownRecords)
	r.overBytes -= max(0, h.bytes-r.ownBytes)
	h.records += records
	h.bytes += bytes
	r.records += records
	r.bytes += bytes
	r.overRecords += max(0, h.records-r.ownRecords)
	r.overBytes += max(0, h.bytes-r.ownBytes)
}

// fits returns how many of want records a shard may read now. Without borrow it is
// what the shard has in any case, or one record of the common half.
func (r *room) fits(l *lanes, want int, borrow bool) int {
	h := &l.held
	n := max(0, r.ownRecords-h.records)
	bytes := max(0, r.ownBytes-h.bytes)
	if borrow || n == 0 || bytes < h.expect {
		n += max(0, r.maxRecords-r.ownRecords*len(r.shards)-r.overRecords)
		bytes += max(0, r.maxBytes-r.ownBytes*int64(len(r.shards))-r.overBytes)
		if !borrow {
			n = min(n, 1)
		}
	}
	n = min(n, want, r.maxRecords-r.records)
	bytes = min(bytes, r.maxBytes-r.bytes)
	if h.expect == 0 {
		n = min(n, 1)
	} else {
		n = int(min(int64(n), bytes/h.expect))
	}
	if n < 1 && h.records == 0 {
		// However large it is: somebody has to handle it.
		return 1
	}
	return max(0, n)
}

func (r *room) book(l *lanes, n int) {
	l.held.booked, l.held.bookedBytes = n, int64(n)*l.held.expect
	r.hold(l, n, l.held.bookedBytes)
}

func (r *room) unbook(l *lanes) {
	r.hold(l, -l.held.booked, -l.held.bookedBytes)
	l.held.booked, l.held.bookedBytes = 0, 0
}

// learn looks at the sizes of what was read: large ones count at once, and are
// forgotten over some reads.
func (r *room) learn(l *lanes, batch []*entry) {
	if len(batch) == 0 {
		return
	}
	var largest int64
	for _, e := range batch {
		largest = max(largest, e.size)
	}
	h := &l.held
	h.expect = max(largest, h.expect-(h.expect-largest)/4)
}

// freedOne notes that a record was finished, and calls those who wait for room: at
// once if handlers have nothing to do, else when it is worth a read.
func (r *room) freedOne(slack bool) {
	if len(r.waiting) == 0 {
		return
	}
	if r.freed++; slack || r.freed >= min(32, max(1, r.maxRecords/8)) {
		r.call()
	}
}

func (r *room) call() {
	r.freed = 0
	for l := range r.waiting {
		poke(l.roomy)
	}
}

// book waits until the shard may read, and returns how many of want records; 0 if
// reading is to stop. They are booked until push or unbook. While handlers are busy
// it waits until a read is worth its while.
func (l *lanes) book(ctx context.Context, quit <-chan struct{}, want int, borrow bool) int {
	p := l.pool
	for {
		p.mu.Lock()
		n := p.room.fits(l, want, borrow)
		if n > 0 && (n >= min(want, max(1, p.room.ownRecords/2)) || l.held.expect == 0 || p.slack()) {
			p.room.book(l, n)
			delete(p.room.waiting, l)
			p.mu.Unlock()
			return n
		}
		p.room.waiting[l] = struct{}{}
		p.mu.Unlock()
		select {
		case <-l.roomy:
			continue
		case <-quit:
		case <-ctx.Done():
		}
		p.mu.Lock()
		delete(p.room.waiting, l)
		p.mu.Unlock()
		return 0
	}
}

// unbook gives the booking back.
func (l *lanes) unbook() {
	l.pool.mu.Lock()
	defer l.pool.mu.Unlock()
	l.pool.room.unbook(l)
	l.pool.room.call()
}
