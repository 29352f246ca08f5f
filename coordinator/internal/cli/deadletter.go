package cli

import (
	"strconv"

	"github.com/redis-stream-coordinator/rsc/adapters/redis"
	"github.com/redis-stream-coordinator/rsc/consumer"
	"github.com/redis-stream-coordinator/rsc/producer"
)

// replayedField is a field of records that were replayed: the id of the dead
// letter. A record that was replayed twice carries the same one.
const replayedField = "rsc-replayed"

// deadLetter is an entry of a dead-letter stream, taken apart.
type deadLetter struct {
	// id is that of the entry; record and shard say which record it was, shard is
	// -1 where that is missing.
	id     string
	shard  int
	record string
	// deliveries is how often the record was begun, 0 where that is missing.
	deliveries    int
	reason        string
	group, member string
	// fields are those of the record itself.
	fields []redis.Field
}

// readDeadLetter takes an entry apart. Entries that somebody else wrote lack the
// fields of a dead letter, and are records as they stand.
func readDeadLetter(e redis.Entry) deadLetter {
	d := deadLetter{id: e.ID, shard: -1, fields: make([]redis.Field, 0, len(e.Fields))}
	for _, f := range e.Fields {
		switch f.Name {
		case consumer.DeadLetterError:
			d.reason = f.Value
		case consumer.DeadLetterShard:
			if n, err := strconv.Atoi(f.Value); err == nil && n >= 0 {
				d.shard = n
			}
		case consumer.DeadLetterID:
			d.record = f.Value
		case consumer.DeadLetterDeliveries:
			if n, err := strconv.Atoi(f.Value); err == nil && n > 0 {
				d.deliveries = n
			}
		case consumer.DeadLetterGroup:
			d.group = f.Value
		case consumer.DeadLetterMember:
			d.member = f.Value
		case replayedField:
			// Of an earlier life.
		default:
			d.fields = append(d.fields, f)
		}
	}
	return d
}

// key is the partition key of the record, empty where it carries none.
func (d *deadLetter) key() string {
	for _, f := range d.fields {
		if f.Name == producer.KeyField {
			return f.Value
		}
	}
	return ""
}

// message is the record as it is published anew: its own fields as they stand,
// and where it comes from. One without key goes to a shard by its id. The producer
// must leave the key's field to us.
func (d *deadLetter) message() producer.Message {
	m := producer.Message{Key: d.key(), Fields: make([]producer.Field, 0, len(d.fields)+1)}
	if m.Key == "" {
		m.Key = d.id
	}
	for _, f := range d.fields {
		m.Fields = append(m.Fields, producer.Field{Name: f.Name, Value: f.Value})
	}
	m.Fields = append(m.Fields, producer.Field{Name: replayedField, Value: d.id})
	return m
}
