package engine

import (
	"strings"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/group"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// A group that has lost its stamps, and whose record has no room for what has to be
// saved, gets its room back once a member is over. The marks cannot go with the save.
func TestMarksOfAFullRecord(t *testing.T) {
	body, _ := unacknowledged(t, true)
	s, err := group.Decode(body)
	if err != nil {
		t.Fatal(err)
	}
	s.Timings = protocol.Timings{HeartbeatInterval: 300 * time.Millisecond, Lease: 3 * time.Second, RebalanceTimeout: 3 * time.Second}
	// Another instance answers than the one that it was saved in: a correction is due,
	// for which there is no room.
	s.Saving(group.Save{Revision: 1, Nonce: "n"}, "another")
	if body, err = group.Encode(&s); err != nil {
		t.Fatal(err)
	}
	s.Lives[0].Name += strings.Repeat("z", protocol.MaxAggregateBytes-len(body)-10)
	if body, err = group.Encode(&s); err != nil {
		t.Fatal(err)
	}
	b := newBench()
	var stamps map[string]string
	for at := time.Duration(0); at < 3*s.Timings.Lease; at += 1100 * time.Millisecond {
		b.tell(at, Woke{})
		b.open = nil
		b.tell(at, Loaded{Version: Version{Instance: "i", Revision: 1, Nonce: "n"}, Body: body, Stamps: stamps})
		switch e := b.open.(type) {
		case Renew:
			stamps = map[string]string{}
			for _, x := range e.Stamps {
				stamps[x.Life] = x.Value
			}
			b.tell(at, Renewed{Outcome: Done})
		case Save:
			return
		}
	}
	t.Errorf("nothing is saved in three lease times, %d marks were written, %v", len(stamps), b.errs)
}
