package producer

import (
	"maps"
	"slices"
)

const (
	// KeyField is the field of a record that carries its partition key, so that
	// consumers can order by it.
	KeyField = "rsc-key"
	// PayloadField is the field that Message.Payload becomes.
	PayloadField = "payload"
	// MaxFields bounds Message.Fields.
	MaxFields = 1000
)

// Message is what becomes one record of a stream. The record's fields are, in
// this order: KeyField with Key (unless Config.OmitKeyField is set or Key is
// empty), PayloadField with Payload (unless it is nil), and Fields as they
// stand, behind TraceField where Config.TraceParent writes one. Redis stores records compactly when successive ones have the same field
// names in the same order.
//
// At least one of Payload and Fields must be there. A message is not changed,
// and nothing of it is kept after the call that published it returned; Send keeps
// it until its outcome is there.
type Message struct {
	// Key is the partition key: it decides the shard, and messages of one key
	// keep their order. Any bytes are allowed and compared as they are. It must
	// not be empty unless Shard is set: the empty key would silently put all
	// messages without a key on one shard.
	Key string
	// Shard sends the message to this shard whatever its key. The zero value
	// leaves the choice to Key. The order per key is then the caller's matter.
	Shard ShardChoice
	// Payload is short for a field named PayloadField. nil means no such field,
	// an empty slice an empty value.
	Payload []byte
	// Fields are written in the order given; a name may occur more than once.
	Fields []Field
}

// Field is one field of a record. Name must not be empty; Value may hold any
// bytes.
type Field struct {
	Name, Value string
}

// FieldsOf returns the entries of m in the order of their names, so that the
// same map always becomes the same record.
func FieldsOf(m map[string]string) []Field {
	fields := make([]Field, 0, len(m))
	for _, name := range slices.Sorted(maps.Keys(m)) {
		fields = append(fields, Field{name, m[name]})
	}
	return fields
}

// ShardChoice names a shard explicitly, see OnShard. Its zero value names none.
type ShardChoice struct {
	index  int
	chosen bool
}

// OnShard names the shard with this index, from 0.
func OnShard(index int) ShardChoice { return ShardChoice{index: index, chosen: true} }

// size returns the bytes of names and values that the message becomes.
func (m *Message) size(omitKey bool) int {
	n := 0
	if m.writesKey(omitKey) {
		n += len(KeyField) + len(m.Key)
	}
	if m.Payload != nil {
		n += len(PayloadField) + len(m.Payload)
	}
	for i := range m.Fields {
		n += len(m.Fields[i].Name) + len(m.Fields[i].Value)
	}
	return n
}

func (m *Message) writesKey(omitKey bool) bool { return !omitKey && m.Key != "" }

// check reports a message that cannot become a record, nil if it can.
// size is that of the record.
func (m *Message) check(cfg *Config, size int) *PublishError {
	switch {
	case m.Key == "" && !m.Shard.chosen:
		return ErrInvalidMessage.with("Key is empty: give the message a partition key, or name its shard with OnShard")
	case m.Payload == nil && len(m.Fields) == 0:
		return ErrInvalidMessage.with("the message has neither Payload nor Fields: a record needs at least one field")
	case len(m.Fields) > MaxFields:
		return ErrInvalidMessage.with("the message has %d fields, at most %d are allowed", len(m.Fields), MaxFields)
	}
	for i := range m.Fields {
		switch name := m.Fields[i].Name; {
		case name == "":
			return ErrInvalidMessage.with("Fields[%d] has no name", i)
		case name == KeyField && m.writesKey(cfg.OmitKeyField):
			return ErrInvalidMessage.with("Fields[%d] is named %s, which the producer writes itself: leave it out, or set OmitKeyField", i, KeyField)
		case name == PayloadField && m.Payload != nil:
			return ErrInvalidMessage.with("Fields[%d] is named %s and Payload is set too: use one of them", i, PayloadField)
		}
	}
	if size > cfg.MaxMessageBytes {
		return ErrMessageTooLarge.with("the message has %d bytes, at most %d are allowed (MaxMessageBytes): store large content elsewhere and publish a reference", size, cfg.MaxMessageBytes)
	}
	return nil
}

// Receipt tells where a record was stored.
type Receipt struct {
	// Shard is the index of the shard, StreamKey its key in Redis.
	Shard     int
	StreamKey string
	// ID is the record's id in that stream, such as 1700000000000-0.
	ID string
	// MetadataVersion is the version of the stream that the record was routed by.
	MetadataVersion int64
	// Repeated is true when the record was sent more than once because of
	// Config.RetryUncertain: it may be stored more than once, ID names the last.
	Repeated bool
}

// Result is the outcome of one message of a batch.
type Result struct {
	// Receipt is set when Err is nil.
	Receipt Receipt
	// Err is nil or a *PublishError.
	Err error
}
