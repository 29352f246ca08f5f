package group

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// Encode writes the state as it is stored. The same state gives the same bytes:
// those that encoding/json makes of the record.
// Errors: protocol.ErrTooLarge above protocol.MaxAggregateBytes.
func Encode(s *State) ([]byte, error) { return encode(s, make([]string, len(s.Lives))) }

// Encode writes the state of the view as Encode does. What it writes of a life is kept
// for views of later states, in which most lives are the same.
func (v *View) Encode() ([]byte, error) { return encode(v.State, v.rows) }

func encode(s *State, rows []string) ([]byte, error) {
	body, err := s.encode(rows)
	if err != nil {
		return nil, fmt.Errorf("encode group %s/%s: %w", s.Stream, s.Group, err)
	}
	if len(body) > protocol.MaxAggregateBytes {
		return nil, protocol.ErrTooLarge.With("the state of group %s/%s is %d bytes long, at most %d are allowed: use fewer shards or members",
			s.Stream, s.Group, len(body), protocol.MaxAggregateBytes)
	}
	return body, nil
}

func (s *State) encode(rows []string) ([]byte, error) {
	first, err := json.Marshal(head{
		SchemaVersion: SchemaVersion, StreamPrefix: s.Stream, ConsumerGroup: s.Group,
		CreatedAt: s.CreatedAt.UTC(), UpdatedAt: s.UpdatedAt.UTC(),
		Counter: s.Counter, GroupEpoch: s.GroupEpoch, AssignmentEpoch: s.AssignmentEpoch,
		MetadataVersion: s.MetadataVersion, ShardCount: s.ShardCount, StreamVersion: s.StreamVersion,
		Timings: timings{
			s.Timings.HeartbeatInterval.Milliseconds(), s.Timings.Lease.Milliseconds(), s.Timings.RebalanceTimeout.Milliseconds(),
		},
	})
	if err != nil {
		return nil, err
	}
	last, err := json.Marshal(s.tail())
	if err != nil {
		return nil, err
	}
	w := writer{b: make([]byte, 0, s.size(len(first)+len(last)))}
	w.b = append(w.b, first[:len(first)-1]...)
	w.lives(s.Lives, rows)
	w.ledger(s)
	w.b = appendColumn(append(w.b, `,"target":`...), s.Target, 0)
	w.tombstones(s.Ended)
	if len(last) > len("{}") {
		w.b = append(append(w.b, ','), last[1:]...)
	} else {
		w.b = append(w.b, '}')
	}
	return w.b, w.err
}

func (s *State) tail() tail {
	t := tail{Closed: s.Closed, PromisedMs: s.Promised.Milliseconds(), TimingsEpoch: s.TimingsEpoch, Instance: s.Instance}
	if s.ReadCount != s.ShardCount {
		t.ReadCount = s.ReadCount
	}
	for _, w := range s.Ring {
		t.Ring = append(t.Ring, saved(w))
	}
	for _, d := range s.Dates {
		t.Dates = append(t.Dates, [2]int64{int64(d.Epoch), d.Ms})
	}
	if k := s.Correction; k != nil {
		t.Correction = &correction{k.Jump, k.Reason, k.OpenedAt.UTC()}
	}
	return t
}

// size is about how long the record will be, with so many bytes at its ends.
func (s *State) size(ends int) int {
	const life, tombstone, rest = 200, 128, 128
	// A holder, a target, and a grant less the base.
	row := 2*(len(strconv.Itoa(len(s.Lives)))+1) + len(strconv.Itoa(int(s.Counter-lowest(s)+1))) + 1
	return ends + row*len(s.Target) + life*len(s.Lives) + tombstone*len(s.Ended) + rest
}

// writer appends JSON to b. err is the first thing that went wrong.
type writer struct {
	b   []byte
	err error
}

// inherit takes over what was written of lives that are the same in another view. The
// order of lives does not change, so one walk over both finds them.
func (v *View) inherit(before *View) {
	if before == nil {
		return
	}
	j := 0
	for i := range v.State.Lives {
		for at := j; at < len(before.keys); at++ {
			if before.keys[at] == v.keys[i] {
				if before.State.Lives[at] == v.State.Lives[i] {
					v.rows[i] = before.rows[at]
				}
				j = at + 1
				break
			}
			if at-j == maxSkipped {
				break // it is new
			}
		}
	}
}

// maxSkipped is how many lives that are gone in a row are looked over.
const maxSkipped = 8

// lives writes all lives, and into rows what it wrote of each.
func (w *writer) lives(all []Life, rows []string) {
	w.b = append(w.b, `,"lives":[`...)
	for i := range all {
		l := &all[i]
		w.comma(i)
		if rows[i] != "" {
			w.b = append(w.b, rows[i]...)
			continue
		}
		begun := len(w.b)
		w.text(`{"member":`, l.Member)
		if l.Name != "" {
			w.text(`,"name":`, l.Name)
		}
		w.text(`,"incarnation":`, l.Incarnation)
		w.flag(`,"legacy":true`, l.Legacy)
		w.text(`,"state":`, lifeStates[l.State])
		w.number(`,"joinEpoch":`, int64(l.JoinEpoch))
		w.number(`,"acked":`, int64(l.Acked))
		w.number(`,"epoch":`, int64(l.Epoch))
		w.flag(`,"inSync":true`, l.InSync)
		w.flag(`,"doubtful":true`, l.Doubtful)
		w.flag(`,"draining":true`, l.Draining)
		w.time(`,"joinedAt":`, l.JoinedAt.UTC())
		w.b = append(w.b, '}')
		if w.err == nil {
			rows[i] = string(w.b[begun:])
		}
	}
	w.b = append(w.b, ']')
}

func (w *writer) ledger(s *State) {
	base := lowest(s) - 1
	w.number(`,"ledger":{"base":`, int64(base))
	w.b = appendColumn(append(w.b, `,"holder":`...), s.Ledger.Holder, 0)
	w.b = appendColumn(append(w.b, `,"grant":`...), s.Ledger.Grant, base)
	w.b = append(w.b, `,"revoke":[`...)
	n := 0
	for shard, e := range s.Ledger.Revoke {
		if e != 0 {
			w.comma(n)
			n++
			w.number("[", int64(shard))
			w.number(",", int64(e-base))
			w.b = append(w.b, ']')
		}
	}
	w.b = append(w.b, "]}"...)
}

func (w *writer) tombstones(all []Tombstone) {
	w.b = append(w.b, `,"ended":[`...)
	for i := range all {
		t := &all[i]
		w.comma(i)
		w.text(`{"member":`, t.Member)
		w.text(`,"incarnation":`, t.Incarnation)
		w.text(`,"reason":`, string(t.Reason))
		w.time(`,"at":`, t.At.UTC())
		w.b = append(w.b, '}')
	}
	w.b = append(w.b, ']')
}

// comma stands in front of every element but the first.
func (w *writer) comma(i int) {
	if i > 0 {
		w.b = append(w.b, ',')
	}
}

// The following append a name with all that stands around it, and a value.

func (w *writer) number(name string, n int64) {
	w.b = strconv.AppendInt(append(w.b, name...), n, 10)
}

// flag appends the whole of a field that is left out when it is false.
func (w *writer) flag(field string, on bool) {
	if on {
		w.b = append(w.b, field...)
	}
}

func (w *writer) text(name, value string) {
	w.b = append(w.b, name...)
	if !plain(value) {
		escaped, err := json.Marshal(value)
		w.fail(err)
		w.b = append(w.b, escaped...)
		return
	}
	w.b = append(w.b, '"')
	w.b = append(w.b, value...)
	w.b = append(w.b, '"')
}

// plain reports whether a text needs no escapes.
func plain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			return false
		}
	}
	return true
}

func (w *writer) time(name string, t time.Time) {
	w.b = append(w.b, name...)
	if y := t.Year(); y < 0 || y > 9999 {
		w.fail(fmt.Errorf("the year %d cannot be written", y))
		return
	}
	w.b = append(w.b, '"')
	w.b = t.AppendFormat(w.b, time.RFC3339Nano)
	w.b = append(w.b, '"')
}

func (w *writer) fail(err error) {
	if w.err == nil {
		w.err = err
	}
}
