package group

import (
	"encoding/json"
	"errors"
	"strconv"
)

// The long columns of a record are written and read by hand: by reflection they
// would take most of the time of a save, and of a load after another coordinator's
// save.

// number is an element of a column.
type number interface{ ~int32 | ~int64 }

// column is a list of whole numbers.
type column[T number] []T

// UnmarshalJSON reads a list of whole numbers.
func (c *column[T]) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*c = nil
		return nil
	}
	n := 0
	for _, x := range b {
		if x == ',' {
			n++
		}
	}
	list := make(column[T], 0, n+1)
	// What comes here is valid JSON, of whatever kind.
	for i := 0; i < len(b); i++ {
		switch x := b[i]; {
		case x == '-' || x >= '0' && x <= '9':
			end := i + 1
			for end < len(b) && b[end] >= '0' && b[end] <= '9' {
				end++
			}
			v, err := strconv.ParseInt(string(b[i:end]), 10, 64)
			if err != nil || int64(T(v)) != v {
				return errors.New("a number is too large for its column")
			}
			list = append(list, T(v))
			i = end - 1
		case x == '[' && i == 0, x == ',', x == ']' && i == len(b)-1, x == ' ', x == '\n', x == '\t', x == '\r':
		default:
			return errors.New("a column holds something else than whole numbers")
		}
	}
	if len(b) == 0 || b[0] != '[' {
		return errors.New("a column is no list")
	}
	*c = list
	return nil
}

func appendColumn[T number](b []byte, c []T) []byte {
	b = append(b, '[')
	for i, x := range c {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(x), 10)
	}
	return append(b, ']')
}

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
	const digits = 6 // of a holder, a target, and a grant less the base, about
	b := make([]byte, 0, len(head)+len(tail)+3*digits*len(r.Target)+256)
	b = append(b, head[:len(head)-1]...)
	b = append(b, `,"ledger":{"base":`...)
	b = strconv.AppendInt(b, int64(r.Ledger.Base), 10)
	b = appendColumn(append(b, `,"holder":`...), r.Ledger.Holder)
	b = appendColumn(append(b, `,"grant":`...), r.Ledger.Grant)
	b = append(b, `,"revoke":[`...)
	for i, v := range r.Ledger.Revoke {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendColumn(b, v[:])
	}
	b = appendColumn(append(b, `]},"target":`...), r.Target)
	b = append(b, ',')
	return append(b, tail[1:]...), nil
}
