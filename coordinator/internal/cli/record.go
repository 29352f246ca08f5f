package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"github.com/redis-stream-coordinator/rsc/consumer"
)

// record is a record as it is printed, and given to commands.
type record struct {
	Stream     string `json:"stream"`
	Shard      int    `json:"shard"`
	ID         string `json:"id"`
	Key        string `json:"key,omitempty"`
	Token      int64  `json:"token"`
	Deliveries int    `json:"deliveries"`
	// Values are the fields that are text, the key left out; Binary the others,
	// in base64, and KeyBinary a key that is no text.
	Values    map[string]string `json:"values"`
	Binary    map[string][]byte `json:"binary,omitempty"`
	KeyBinary []byte            `json:"keyBinary,omitempty"`
}

// encodeRecord returns a record as one line of JSON with its end.
func encodeRecord(r consumer.Record) ([]byte, error) {
	out := record{Stream: r.Stream, Shard: r.Shard, ID: r.ID, Token: r.Token, Deliveries: r.Deliveries, Values: make(map[string]string, len(r.Values))}
	if utf8.ValidString(r.Key) {
		out.Key = r.Key
	} else {
		out.KeyBinary = []byte(r.Key)
	}
	for name, value := range r.Values {
		switch {
		case name == consumer.KeyField && value == r.Key:
		case utf8.ValidString(value):
			out.Values[name] = value
		default:
			if out.Binary == nil {
				out.Binary = map[string][]byte{}
			}
			out.Binary[name] = []byte(value)
		}
	}
	var line bytes.Buffer
	encoder := json.NewEncoder(&line)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(out); err != nil {
		return nil, fmt.Errorf("print record %s: %w", r.ID, err)
	}
	return line.Bytes(), nil
}
