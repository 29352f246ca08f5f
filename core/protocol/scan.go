package protocol

import (
	"bytes"
	"unicode/utf8"
)

// scanHeartbeat reads a heartbeat in the plain form that all known clients write,
// many times faster than encoding/json does. ok is false for everything out of the
// ordinary: unknown, repeated or missing fields, escapes in a text, null for a list,
// numbers with a fraction, and whatever is no JSON. What is to be said of it is left
// to the slow way; what is taken here reads the same there.
func scanHeartbeat(body []byte) (q *Heartbeat, ok bool) {
	s := scanner{rest: body}
	q = new(Heartbeat)
	var seen fieldSet
	const (
		version fieldSet = 1 << iota
		requestID
		memberID
		memberName
		incarnation
		stoppedIncarnation
		memberEpoch
		metadataVersion
		capacity
		maxWait
		owned
		revoking
		progress
		needed = version | requestID | memberID | memberEpoch | metadataVersion | capacity
	)
	fine := s.object(func(name []byte) bool {
		switch string(name) {
		case "protocolVersion":
			return seen.add(version) && s.small(&q.ProtocolVersion)
		case "requestId":
			return seen.add(requestID) && s.text(&q.RequestID)
		case "memberId":
			return seen.add(memberID) && s.text(&q.MemberID)
		case "memberName":
			return seen.add(memberName) && s.text(&q.MemberName)
		case "incarnation":
			return seen.add(incarnation) && s.text(&q.Incarnation)
		case "stoppedIncarnation":
			return seen.add(stoppedIncarnation) && s.text(&q.StoppedIncarnation)
		case "memberEpoch":
			return seen.add(memberEpoch) && s.number((*int64)(&q.MemberEpoch))
		case "metadataVersion":
			return seen.add(metadataVersion) && s.number(&q.MetadataVersion)
		case "runtimeConsumerCapacity":
			return seen.add(capacity) && s.capacity(&q.Capacity)
		case "maxWaitMs":
			return seen.add(maxWait) && s.number(&q.MaxWaitMs)
		case "ownedShards":
			return seen.add(owned) && s.shards(&q.OwnedShards)
		case "revokingShards":
			return seen.add(revoking) && scanRows(&s, &q.RevokingShards, (*scanner).revoking)
		case "shardProgress":
			return seen.add(progress) && scanRows(&s, &q.ShardProgress, (*scanner).progress)
		}
		return false
	})
	return q, fine && seen&needed == needed && s.end()
}

// fieldSet are the fields of an object that were met.
type fieldSet uint16

// add reports false for a field that was met before.
func (f *fieldSet) add(field fieldSet) bool {
	fresh := *f&field == 0
	*f |= field
	return fresh
}

// scanner reads JSON from the front of rest. Its methods report false for what they
// do not take, and are of no use any more then.
type scanner struct{ rest []byte }

// space passes over blanks.
func (s *scanner) space() {
	for i, c := range s.rest {
		if c != ' ' && c != '\n' && c != '\t' && c != '\r' {
			s.rest = s.rest[i:]
			return
		}
	}
	s.rest = nil
}

// take passes over blanks and one character if it is c.
func (s *scanner) take(c byte) bool {
	if len(s.rest) == 0 || s.rest[0] != c {
		if s.space(); len(s.rest) == 0 || s.rest[0] != c {
			return false
		}
	}
	s.rest = s.rest[1:]
	return true
}

// end reports whether nothing but blanks is left.
func (s *scanner) end() bool {
	s.space()
	return len(s.rest) == 0
}

// word passes over a literal.
func (s *scanner) word(w string) bool {
	s.space()
	if len(s.rest) < len(w) || string(s.rest[:len(w)]) != w {
		return false
	}
	s.rest = s.rest[len(w):]
	return true
}

// object calls field with the name of each field; it reads the value.
func (s *scanner) object(field func(name []byte) bool) bool {
	if !s.take('{') {
		return false
	}
	if s.take('}') {
		return true
	}
	for {
		name, ok := s.raw()
		if !ok || !s.take(':') || !field(name) {
			return false
		}
		if !s.take(',') {
			return s.take('}')
		}
	}
}

// list calls item in front of each item; it reads it.
func (s *scanner) list(item func() bool) bool {
	if !s.take('[') {
		return false
	}
	if s.take(']') {
		return true
	}
	for {
		if !item() {
			return false
		}
		if !s.take(',') {
			return s.take(']')
		}
	}
}

// raw returns the bytes of a text, which has no escapes. They belong to the body.
func (s *scanner) raw() ([]byte, bool) {
	if !s.take('"') {
		return nil, false
	}
	n := bytes.IndexByte(s.rest, '"')
	if n < 0 {
		return nil, false
	}
	text := s.rest[:n]
	for _, c := range text {
		if c < ' ' || c == '\\' {
			return nil, false
		}
	}
	s.rest = s.rest[n+1:]
	return text, utf8.Valid(text)
}

func (s *scanner) text(into *string) bool {
	text, ok := s.raw()
	*into = string(text)
	return ok
}

// textOrNull takes null for an empty text.
func (s *scanner) textOrNull(into *string) bool {
	return s.word("null") || s.text(into)
}

// maxDigits keeps numbers from overflowing.
const maxDigits = 18

func (s *scanner) number(into *int64) bool {
	s.space()
	i, negative := 0, false
	if i < len(s.rest) && s.rest[i] == '-' {
		i, negative = 1, true
	}
	first := i
	var n int64
	for i < len(s.rest) && s.rest[i] >= '0' && s.rest[i] <= '9' {
		if i-first == maxDigits {
			return false
		}
		n = 10*n + int64(s.rest[i]-'0')
		i++
	}
	// No zero in front, and no number that goes on in another form.
	if i == first || s.rest[first] == '0' && (i > first+1 || negative) {
		return false
	}
	if i < len(s.rest) && (s.rest[i] == '.' || s.rest[i] == 'e' || s.rest[i] == 'E') {
		return false
	}
	if negative {
		n = -n
	}
	*into = n
	s.rest = s.rest[i:]
	return true
}

// small reads a number that fits into an int of any machine.
func (s *scanner) small(into *int) bool {
	var n int64
	ok := s.number(&n)
	*into = int(n)
	return ok && n == int64(int32(n))
}

func (s *scanner) flag(into *bool) bool {
	*into = s.word("true")
	return *into || s.word("false")
}

func (s *scanner) capacity(c *Capacity) bool {
	var seen fieldSet
	return s.object(func(name []byte) bool {
		switch string(name) {
		case "runtimeMaxConcurrency":
			return seen.add(1) && s.small(&c.MaxConcurrency)
		case "availableConcurrency":
			return seen.add(2) && s.small(&c.AvailableConcurrency)
		}
		return false
	})
}

// shard reads {"shardIndex":n}.
func (s *scanner) shard(into *ShardIndex) bool {
	if !s.take('{') {
		return false
	}
	name, ok := s.raw()
	return ok && string(name) == "shardIndex" && s.take(':') && s.small((*int)(into)) && s.take('}')
}

// shards reads a list of {"shardIndex":n} and bare numbers.
func (s *scanner) shards(into *Shards) bool {
	end := bytes.IndexByte(s.rest, ']')
	if end < 0 {
		return false
	}
	// As many as there are commas, and one.
	*into = make(Shards, 0, min(MaxShards, 1+bytes.Count(s.rest[:end], []byte{','})))
	return s.list(func() bool {
		var i ShardIndex
		s.space()
		ok := len(s.rest) > 0 && s.rest[0] != '{' && s.small((*int)(&i)) || s.shard(&i)
		*into = append(*into, i)
		return ok
	})
}

// scanRows reads a list of rows.
func scanRows[T any](s *scanner, into *[]T, row func(*scanner, *T) bool) bool {
	*into = []T{}
	return s.list(func() bool {
		var r T
		ok := row(s, &r)
		*into = append(*into, r)
		return ok
	})
}

// The first fields of a row: the shard in one of its two forms, but not in both.
const (
	rowShard fieldSet = 1 << iota
	rowRest           // and those above
)

func (s *scanner) revoking(r *RevokingShard) bool {
	var seen fieldSet
	return s.object(func(name []byte) bool {
		switch string(name) {
		case "shard":
			return seen.add(rowShard) && s.shard(&r.Shard)
		case "shardIndex":
			return seen.add(rowShard) && s.small((*int)(&r.Shard))
		case "state":
			return seen.add(rowRest) && s.text((*string)(&r.State))
		case "inFlight":
			return seen.add(rowRest<<1) && s.small(&r.InFlight)
		case "ackedAt":
			return seen.add(rowRest<<2) && s.textOrNull(&r.AckedAt)
		}
		return false
	}) && seen&rowShard != 0
}

func (s *scanner) progress(p *ShardProgress) bool {
	var seen fieldSet
	return s.object(func(name []byte) bool {
		switch string(name) {
		case "shard":
			return seen.add(rowShard) && s.shard(&p.Shard)
		case "shardIndex":
			return seen.add(rowShard) && s.small((*int)(&p.Shard))
		case "streamKey":
			return seen.add(rowRest) && s.text(&p.StreamKey)
		case "lastDeliveredId":
			return seen.add(rowRest<<1) && s.textOrNull(&p.LastDeliveredID)
		case "lastAckedId":
			return seen.add(rowRest<<2) && s.textOrNull(&p.LastAckedID)
		case "pendingCount":
			return seen.add(rowRest<<3) && s.number(&p.PendingCount)
		case "updatedAt":
			return seen.add(rowRest<<4) && s.textOrNull(&p.UpdatedAt)
		case "missing":
			return seen.add(rowRest<<5) && s.flag(&p.Missing)
		}
		return false
	}) && seen&rowShard != 0
}
