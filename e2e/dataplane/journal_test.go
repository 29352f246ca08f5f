package dataplane

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis-stream-coordinator/rsc/e2e/faultkit"
)

// What an event says.
const (
	began    byte = 'B'
	finished byte = 'E'
	failed   byte = 'F'
)

// event is a line of the journal: a handler began with a record, or ended.
type event struct {
	kind       byte
	at         time.Time
	shard      int
	id         string
	token      int64
	deliveries int
	member     string
	key        string
	seq        int
}

func (e event) append(line []byte) []byte {
	return fmt.Appendf(line, "%c %d %d %s %d %d %s %s %d\n", e.kind, e.at.UnixNano(), e.shard, e.id, e.token, e.deliveries, e.member, e.key, e.seq)
}

func parseEvent(line string) (event, error) {
	f := strings.Split(line, " ")
	if len(f) != 9 || len(f[0]) != 1 {
		return event{}, fmt.Errorf("no line of the journal: %q", line)
	}
	var bad []error
	number := func(text string) int64 {
		n, err := strconv.ParseInt(text, 10, 64)
		bad = append(bad, err)
		return n
	}
	e := event{
		kind: f[0][0], at: time.Unix(0, number(f[1])), shard: int(number(f[2])), id: f[3], token: number(f[4]),
		deliveries: int(number(f[5])), member: f[6], key: f[7], seq: int(number(f[8])),
	}
	return e, errors.Join(bad...)
}

// journal is where handlers note what they do. Each event is one write, so the order of
// the lines is the order in which things happened, over all processes.
type journal struct{ *faultkit.Journal }

func (j journal) note(e event) {
	var room [160]byte
	j.Write(e.append(room[:0]))
}

// takeEvents calls add for each event that was added to a journal.
func takeEvents(r *faultkit.JournalReader, add func(event)) {
	r.Take(func(line []byte) error {
		e, err := parseEvent(string(line))
		if err == nil {
			add(e)
		}
		return err
	})
}
