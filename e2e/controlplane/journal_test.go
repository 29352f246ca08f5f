package controlplane

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis-stream-coordinator/rsc/e2e/faultkit"
)

// What a line of the journal says.
const (
	// started: the member may read the shard from now on.
	started byte = 'S'
	// reads: it may still.
	reads byte = 'R'
	// letGo: it was asked to let go and reads no more.
	letGo byte = 'E'
	// lost: the shard was taken from it. It is known when that was heard, not when the
	// last read was.
	lost byte = 'L'
)

// line is a line of the journal.
type line struct {
	kind byte
	// at is on the wall clock, which all processes here share. What is written of a
	// pause comes late; its time does not.
	at     time.Time
	shard  int
	token  int64
	member string
	// cause is why a shard was lost, else "-".
	cause string
}

func (l line) append(text []byte) []byte {
	return fmt.Appendf(text, "%c %d %d %d %s %s\n", l.kind, l.at.UnixNano(), l.shard, l.token, l.member, l.cause)
}

func parseLine(text string) (line, error) {
	f := strings.Split(text, " ")
	if len(f) != 6 || len(f[0]) != 1 {
		return line{}, fmt.Errorf("no line of the journal: %q", text)
	}
	at, err1 := strconv.ParseInt(f[1], 10, 64)
	shard, err2 := strconv.Atoi(f[2])
	token, err3 := strconv.ParseInt(f[3], 10, 64)
	return line{kind: f[0][0], at: time.Unix(0, at), shard: shard, token: token, member: f[4], cause: f[5]}, errors.Join(err1, err2, err3)
}

// journal is where members note what they do.
type journal struct{ *faultkit.Journal }

func (j journal) note(l line) {
	var room [128]byte
	j.Write(l.append(room[:0]))
}

// takeLines calls add for each line that was added to a journal.
func takeLines(r *faultkit.JournalReader, add func(line)) {
	r.Take(func(text []byte) error {
		l, err := parseLine(string(text))
		if err == nil {
			add(l)
		}
		return err
	})
}
