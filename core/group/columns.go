package group

import (
	"errors"
	"strconv"
)

// The long columns of a record are written and read by hand, and the lists of lives
// are written by hand: by reflection they would take most of the time of a save, and
// of a load after another coordinator's save.

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

// appendColumn appends numbers, those that are not 0 less a base.
func appendColumn[T number](b []byte, c []T, base T) []byte {
	b = append(b, '[')
	for i, x := range c {
		if i > 0 {
			b = append(b, ',')
		}
		if x != 0 {
			x -= base
		}
		b = strconv.AppendInt(b, int64(x), 10)
	}
	return append(b, ']')
}
