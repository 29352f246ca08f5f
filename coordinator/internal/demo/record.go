package demo

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis-stream-coordinator/rsc/producer"
)

// recordID is the id that Redis gave a record: milliseconds and a counter.
type recordID struct{ millis, n uint64 }

// parseID reads an id such as 1700000000000-0.
func parseID(s string) (recordID, error) {
	left, right, found := strings.Cut(s, "-")
	millis, err1 := strconv.ParseUint(left, 10, 64)
	n, err2 := strconv.ParseUint(right, 10, 64)
	if !found || err1 != nil || err2 != nil {
		return recordID{}, fmt.Errorf("%.40q is not the id of a record", s)
	}
	return recordID{millis, n}, nil
}

func (id recordID) String() string { return fmt.Sprintf("%d-%d", id.millis, id.n) }

// place is where a record lies; no two records share one.
type place struct {
	shard int
	id    recordID
}

func (p place) String() string { return fmt.Sprintf("shard %d, id %s", p.shard, p.id) }

// content is what a record carries: a key and the number of the record among
// those of its key, from 1.
type content struct{ key, seq int }

func (c content) String() string { return fmt.Sprintf("key %d, number %d", c.key, c.seq) }

// All times of the accounting are since the start of the demo, on the wall
// clock that the processes of one machine share.

// sent is a record that the producer sent.
type sent struct {
	// place is set when Redis acknowledged the record.
	place
	content
	// at is when the answer was there; the record could be read then.
	at time.Duration
}

// stored is a record that was found in Redis at the end.
type stored struct {
	place
	content
}

// handling is one record in the hands of one consumer.
type handling struct {
	place
	content
	// member names the consumer; token is the fencing token it held the shard by.
	member     string
	token      int64
	start, end time.Duration
}

// The fields of the demo's records.
const (
	keyField = producer.KeyField
	seqField = "seq"
)

const keyPrefix = "key-"

func keyName(key int) string { return keyPrefix + strconv.Itoa(key) }

// parseContent reads what a record carries.
func parseContent(key, seq string) (content, error) {
	number, found := strings.CutPrefix(key, keyPrefix)
	k, err1 := strconv.Atoi(number)
	s, err2 := strconv.Atoi(seq)
	if !found || err1 != nil || err2 != nil {
		return content{}, fmt.Errorf("key %.40q with number %.40q is no record of the demo", key, seq)
	}
	return content{k, s}, nil
}
