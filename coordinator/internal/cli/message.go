package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/redis-stream-coordinator/rsc/producer"
)

// messageOf makes a message of a line. Without a key field the number of the
// line is the key, so that lines spread over the shards; with one the line is a
// JSON object and the key is its field.
func messageOf(l line, keyField string) (producer.Message, error) {
	if l.tooLong {
		return producer.Message{}, fmt.Errorf("is longer than %d bytes", maxLineBytes)
	}
	if keyField == "" {
		return producer.Message{Key: strconv.FormatInt(l.number, 10), Payload: l.text}, nil
	}
	key, err := keyOf(l.text, keyField)
	return producer.Message{Key: key, Payload: l.text}, err
}

// keyOf returns the field of a JSON object as a partition key: the text of a
// string, the digits of a number.
func keyOf(object []byte, field string) (string, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(object, &fields); err != nil || fields == nil {
		return "", errors.New("is not a JSON object, which --key-field needs")
	}
	raw, there := fields[field]
	if !there {
		return "", fmt.Errorf("has no field %q", field)
	}
	switch raw[0] {
	case '"':
		var key string
		if err := json.Unmarshal(raw, &key); err != nil {
			return "", fmt.Errorf("field %q: %w", field, err)
		}
		if key == "" {
			return "", fmt.Errorf("field %q is empty", field)
		}
		return key, nil
	case '{', '[', 'n':
		return "", fmt.Errorf("field %q is no text or number", field)
	default:
		return string(raw), nil
	}
}
