package group

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"
)

// encode writes what json.Marshal makes of the record.
func (r *record) encode() ([]byte, error) {
	head, err := json.Marshal(r.head)
	if err != nil {
		return nil, err
	}
	tail, err := json.Marshal(r.tail)
	if err != nil {
		return nil, err
	}
	w := writer{b: make([]byte, 0, r.size(len(head)+len(tail)))}
	w.b = append(w.b, head[:len(head)-1]...)
	w.lives(r.Lives)
	w.ledger(&r.Ledger)
	w.b = appendColumn(append(w.b, `,"target":`...), r.Target)
	w.tombstones(r.Ended)
	if len(tail) > len("{}") {
		w.b = append(append(w.b, ','), tail[1:]...)
	} else {
		w.b = append(w.b, '}')
	}
	return w.b, w.err
}

// size is about how long the record will be, with so many bytes at its ends.
func (r *record) size(ends int) int {
	const row, life, tombstone, rest = 18, 224, 128, 128
	return ends + row*len(r.Target) + life*len(r.Lives) + tombstone*len(r.Ended) + rest
}

// writer appends JSON to b. err is the first thing that went wrong.
type writer struct {
	b   []byte
	err error
}

func (w *writer) lives(all []life) {
	w.b = append(w.b, `,"lives":[`...)
	for i := range all {
		l := &all[i]
		w.comma(i)
		w.text(`{"member":`, l.Member)
		if l.Name != "" {
			w.text(`,"name":`, l.Name)
		}
		w.text(`,"incarnation":`, l.Incarnation)
		w.flag(`,"legacy":true`, l.Legacy)
		w.text(`,"state":`, l.State)
		w.number(`,"joinEpoch":`, int64(l.JoinEpoch))
		w.number(`,"acked":`, int64(l.Acked))
		w.number(`,"epoch":`, int64(l.Epoch))
		w.flag(`,"inSync":true`, l.InSync)
		w.flag(`,"doubtful":true`, l.Doubtful)
		w.time(`,"joinedAt":`, l.JoinedAt)
		w.b = append(w.b, '}')
	}
	w.b = append(w.b, ']')
}

func (w *writer) ledger(c *columns) {
	w.number(`,"ledger":{"base":`, int64(c.Base))
	w.b = appendColumn(append(w.b, `,"holder":`...), c.Holder)
	w.b = appendColumn(append(w.b, `,"grant":`...), c.Grant)
	w.b = append(w.b, `,"revoke":[`...)
	for i, v := range c.Revoke {
		w.comma(i)
		w.b = appendColumn(w.b, v[:])
	}
	w.b = append(w.b, "]}"...)
}

func (w *writer) tombstones(all []tombstone) {
	w.b = append(w.b, `,"ended":[`...)
	for i := range all {
		t := &all[i]
		w.comma(i)
		w.text(`{"member":`, t.Member)
		w.text(`,"incarnation":`, t.Incarnation)
		w.text(`,"reason":`, string(t.Reason))
		w.time(`,"at":`, t.At)
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
