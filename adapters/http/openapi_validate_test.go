package httpapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

func typeOf(v any) reflect.Type { return reflect.TypeOf(v) }

// description is the description of the API as a reader gets it.
type description struct{ doc map[string]any }

func readDescription(t *testing.T, text []byte) *description {
	t.Helper()
	d := &description{}
	if err := json.Unmarshal(text, &d.doc); err != nil {
		t.Fatal(err)
	}
	return d
}

// at walks down by names; nil where there is no such thing.
func (d *description) at(names ...string) any {
	var here any = d.doc
	for _, name := range names {
		o, _ := here.(map[string]any)
		here = o[name]
	}
	return here
}

// resolve follows a reference inside the document.
func (d *description) resolve(ref string) (any, bool) {
	path, local := strings.CutPrefix(ref, "#/")
	found := d.at(strings.Split(path, "/")...)
	return found, local && found != nil
}

// validate checks a JSON text against a schema and returns all complaints.
func (d *description) validate(schema any, text []byte) []string {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var v any
	if err := decoder.Decode(&v); err != nil {
		return []string{"is no JSON: " + err.Error()}
	}
	return d.check(schema, v, "$")
}

// known are the words of a schema that check understands; another one fails the test,
// since nothing would be checked by it.
var known = []string{
	"$ref", "type", "properties", "required", "items", "additionalProperties", "anyOf", "enum", "format", "minimum", "description",
}

func (d *description) check(schema, v any, at string) (bad []string) {
	s, ok := schema.(map[string]any)
	if !ok {
		return []string{fmt.Sprintf("%s: the schema is %v", at, schema)}
	}
	for word := range s {
		if !slices.Contains(known, word) {
			bad = append(bad, fmt.Sprintf("%s: the schema says %q, which is not checked", at, word))
		}
	}
	if ref, is := s["$ref"].(string); is {
		target, found := d.resolve(ref)
		if !found {
			return append(bad, fmt.Sprintf("%s: %s leads nowhere", at, ref))
		}
		return append(bad, d.check(target, v, at)...)
	}
	if choices, is := s["anyOf"].([]any); is {
		var all []string
		for _, one := range choices {
			complaints := d.check(one, v, at)
			if len(complaints) == 0 {
				return bad
			}
			all = append(all, complaints...)
		}
		return append(bad, all...)
	}
	if !typeFits(s["type"], v) {
		return append(bad, fmt.Sprintf("%s: is %v, want %v", at, v, s["type"]))
	}
	if enum, is := s["enum"].([]any); is && v != nil && !slices.Contains(enum, v) {
		bad = append(bad, fmt.Sprintf("%s: is %v, want one of %v", at, v, enum))
	}
	switch v := v.(type) {
	case string:
		if _, err := time.Parse(time.RFC3339Nano, v); s["format"] == "date-time" && err != nil {
			bad = append(bad, fmt.Sprintf("%s: %v", at, err))
		}
	case json.Number:
		if n, err := v.Float64(); err != nil || s["minimum"] != nil && n < number(s["minimum"]) {
			bad = append(bad, fmt.Sprintf("%s: is %s, at least %v is needed", at, v, s["minimum"]))
		}
	case []any:
		for i, item := range v {
			bad = append(bad, d.check(s["items"], item, fmt.Sprintf("%s[%d]", at, i))...)
		}
	case map[string]any:
		bad = append(bad, d.checkObject(s, v, at)...)
	}
	return bad
}

func (d *description) checkObject(s, v map[string]any, at string) (bad []string) {
	properties, _ := s["properties"].(map[string]any)
	required, _ := s["required"].([]any)
	for _, name := range required {
		text, _ := name.(string)
		if _, there := v[text]; !there {
			bad = append(bad, fmt.Sprintf("%s: lacks %v", at, name))
		}
	}
	for name, value := range v {
		property, described := properties[name]
		switch more := s["additionalProperties"].(type) {
		case bool:
			if !described && !more {
				bad = append(bad, fmt.Sprintf("%s: has %s, which is not described", at, name))
				continue
			}
		case map[string]any:
			if !described {
				property, described = more, true
			}
		}
		if described {
			bad = append(bad, d.check(property, value, at+"."+name)...)
		}
	}
	return bad
}

func number(v any) float64 {
	n, _ := v.(float64)
	return n
}

// typeFits reports whether a value is of a type, or of one of several.
func typeFits(want, v any) bool {
	switch want := want.(type) {
	case nil:
		return true
	case []any:
		return slices.ContainsFunc(want, func(one any) bool { return typeFits(one, v) })
	case string:
		switch v := v.(type) {
		case nil:
			return want == "null"
		case bool:
			return want == "boolean"
		case string:
			return want == "string"
		case []any:
			return want == "array"
		case map[string]any:
			return want == "object"
		case json.Number:
			n, err := v.Float64()
			return err == nil && (want == "number" || want == "integer" && n == math.Trunc(n))
		}
	}
	return false
}

func TestValidatorSeesWhatIsWrong(t *testing.T) {
	d := &description{doc: map[string]any{"components": map[string]any{"schemas": map[string]any{"S": map[string]any{
		"type": "object", "required": []any{"a"}, "additionalProperties": false,
		"properties": map[string]any{
			"a": map[string]any{"type": "integer", "minimum": 1.0},
			"b": map[string]any{"type": []any{"string", "null"}, "format": "date-time"},
			"c": map[string]any{"type": "array", "items": map[string]any{"enum": []any{"X"}}},
			"d": map[string]any{"anyOf": []any{map[string]any{"$ref": "#/components/schemas/S"}, map[string]any{"type": "null"}}},
			"e": map[string]any{"type": "object", "additionalProperties": map[string]any{"type": "boolean"}},
		},
	}}}}}
	schema := map[string]any{"$ref": "#/components/schemas/S"}
	for text, good := range map[string]bool{
		`{"a":1}`: true, `{"a":1,"b":null,"c":[],"d":null,"e":{}}`: true, `{"a":2,"b":"2026-01-02T03:04:05Z","c":["X"],"d":{"a":1},"e":{"x":true}}`: true,
		`{}`: false, `{"a":0}`: false, `{"a":1.5}`: false, `{"a":"1"}`: false, `{"a":null}`: false, `{"a":1,"z":1}`: false, `[]`: false, `{`: false,
		`{"a":1,"b":"yesterday"}`: false, `{"a":1,"c":["Y"]}`: false, `{"a":1,"c":null}`: false, `{"a":1,"d":{}}`: false, `{"a":1,"e":{"x":1}}`: false,
	} {
		if bad := d.validate(schema, []byte(text)); (len(bad) == 0) != good {
			t.Errorf("%s: complaints %q", text, bad)
		}
	}
	if bad := d.validate(map[string]any{"pattern": "x"}, []byte(`"x"`)); len(bad) == 0 {
		t.Error("a word that is not understood is no complaint")
	}
}
