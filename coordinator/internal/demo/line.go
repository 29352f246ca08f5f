package demo

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A consumer process tells each record that it handled in one line, when the
// handler is done and before the record is acknowledged:
//
//	id key seq shard token start end
//
// start and end are nanoseconds of the wall clock. One line is one write, so a
// process that is killed leaves whole lines behind, and never a record that was
// acknowledged without its line.

// handledLine is a handling as the process that did it knows it.
type handledLine struct {
	id, key, seq string
	shard        int
	token        int64
	start, end   time.Time
}

const lineFields = 7

func (l *handledLine) appendTo(b []byte) []byte {
	b = append(b, l.id...)
	b = append(b, ' ')
	b = append(b, l.key...)
	b = append(b, ' ')
	b = append(b, l.seq...)
	for _, n := range [...]int64{int64(l.shard), l.token, l.start.UnixNano(), l.end.UnixNano()} {
		b = append(b, ' ')
		b = strconv.AppendInt(b, n, 10)
	}
	return append(b, '\n')
}

// parseLine reads the line of a member; began is the start of the demo.
func parseLine(member, line string, began time.Time) (handling, error) {
	fields := strings.Fields(line)
	if len(fields) != lineFields {
		return handling{}, fmt.Errorf("line %.80q of %s has %d fields, not %d", line, member, len(fields), lineFields)
	}
	id, err := parseID(fields[0])
	if err != nil {
		return handling{}, fmt.Errorf("line %.80q of %s: %w", line, member, err)
	}
	c, err := parseContent(fields[1], fields[2])
	if err != nil {
		return handling{}, fmt.Errorf("line %.80q of %s: %w", line, member, err)
	}
	var numbers [4]int64
	for i, f := range fields[3:] {
		if numbers[i], err = strconv.ParseInt(f, 10, 64); err != nil {
			return handling{}, fmt.Errorf("line %.80q of %s: %.40q is not a number", line, member, f)
		}
	}
	origin := began.UnixNano()
	return handling{
		place: place{int(numbers[0]), id}, content: c, member: member, token: numbers[1],
		start: time.Duration(numbers[2] - origin), end: time.Duration(numbers[3] - origin),
	}, nil
}
