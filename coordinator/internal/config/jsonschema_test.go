package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

// choices are the settings that are one of a few words.
var choices = map[string][]string{
	"log.level":              {"debug", "info", "warn", "error"},
	"log.format":             {"auto", "text", "json"},
	"coordinator.audit.sink": {AuditLog, AuditRedis, AuditSQL},
	"coordinator.streams.declared[].group-start": {"earliest", "latest"},
}

// placeholder is what stands in a file for the value of a variable.
const placeholder = `\$\{`

// node is a part of a JSON schema.
type node = map[string]any

// settingSchema describes the values of one setting.
func settingSchema(key string, t reflect.Type) node {
	text := func(pattern string) node { return node{"type": "string", "pattern": pattern + "|" + placeholder} }
	switch {
	case choices[key] != nil:
		return node{"anyOf": []node{{"enum": choices[key]}, {"type": "string", "pattern": placeholder}}}
	case t == reflect.TypeFor[time.Duration]():
		return text(`^([0-9.]+(d|h|m|s|ms|us|µs|ns))+$`)
	case t.Kind() == reflect.Bool:
		return node{"anyOf": []node{{"type": "boolean"}, text(`^(true|false)$`)}}
	case t.Kind() == reflect.Int:
		return node{"anyOf": []node{{"type": "integer"}, text(`^-?[0-9]+$`)}}
	case t.Kind() == reflect.Slice:
		return node{"anyOf": []node{{"type": "array", "items": node{"type": "string"}}, {"type": "string"}}}
	}
	return node{"type": "string"}
}

// sectionSchema describes a section with the settings of list, by their keys.
func sectionSchema(list []setting, value reflect.Value, prefix string, meanings map[string]string) node {
	properties := node{}
	for _, s := range list {
		field := value.FieldByIndex(s.index)
		key := prefix + s.key
		var described node
		if s.element != nil {
			element := sectionSchema(s.element, reflect.New(field.Type().Elem()).Elem(), key+"[].", meanings)
			described = node{"type": "array", "items": element}
		} else {
			described = settingSchema(key, field.Type())
		}
		if meaning := meanings[key]; meaning != "" {
			described["description"] = meaning
		}
		at := properties
		parts := strings.Split(s.key, ".")
		for _, part := range parts[:len(parts)-1] {
			section, ok := at[part].(node)
			if !ok {
				section = node{"type": []string{"object", "null"}, "additionalProperties": false, "properties": node{}}
				at[part] = section
			}
			at = section["properties"].(node) //nolint:errcheck,forcetypeassert // made above
		}
		at[parts[len(parts)-1]] = described
	}
	return node{"type": []string{"object", "null"}, "additionalProperties": false, "properties": properties}
}

// meaningsOfPage returns what docs/configuration.md says of each key, and of its default.
func meaningsOfPage(text string) map[string]string {
	plain := regexp.MustCompile("`([^`]*)`")
	meanings := map[string]string{}
	for line := range strings.Lines(text) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		key := strings.Trim(strings.TrimSpace(cells[0]), "`")
		if len(cells) < 3 || !strings.HasPrefix(strings.TrimSpace(cells[0]), "`") {
			continue
		}
		meaning := strings.TrimSpace(strings.Join(cells[2:], " | "))
		if normal := strings.TrimSpace(cells[1]); normal != "none" {
			meaning += " (default: " + normal + ")"
		}
		meanings[key] = strings.TrimSpace(plain.ReplaceAllString(meaning, "$1"))
	}
	return meanings
}

// The schema knows every setting, with what the page says of it.
func TestJSONSchema(t *testing.T) {
	content, err := os.ReadFile(page)
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip("the module stands alone, without the repository's pages")
	}
	if err != nil {
		t.Fatal(err)
	}
	schema := sectionSchema(settings, reflect.ValueOf(Default()), "", meaningsOfPage(string(content)))
	schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	schema["title"] = "Settings of rsc server"
	text, err := json.MarshalIndent(schema, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	text = append(text, '\n')
	if *update {
		if err := os.WriteFile("rsc.schema.json", text, 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(JSONSchema(), text) {
		t.Error("rsc.schema.json is not made of these settings and this page: go test -run TestJSONSchema -update makes it")
	}
}

// conforms returns what in a value is against a schema, in the few words of JSON schema
// that ours uses.
func conforms(schema any, value any, at string) (against []string) {
	s, ok := schema.(node)
	if !ok {
		return []string{at + ": no schema"}
	}
	if options, ok := s["anyOf"].([]any); ok {
		for _, option := range options {
			if len(conforms(option, value, at)) == 0 {
				return nil
			}
		}
		return []string{at + ": is none of what it may be"}
	}
	if words, ok := s["enum"].([]any); ok {
		for _, word := range words {
			if word == value {
				return nil
			}
		}
		return []string{at + ": no such word"}
	}
	switch v := value.(type) {
	case map[string]any:
		properties, ok := s["properties"].(node)
		if !ok {
			return []string{at + ": is a section"}
		}
		for key, one := range v {
			if _, known := properties[key]; !known {
				against = append(against, at+"."+key+": unknown")
				continue
			}
			against = append(against, conforms(properties[key], one, at+"."+key)...)
		}
		return against
	case []any:
		if s["type"] != "array" {
			return []string{at + ": is a list"}
		}
		for _, one := range v {
			against = append(against, conforms(s["items"], one, at+"[]")...)
		}
		return against
	case string:
		pattern, _ := s["pattern"].(string)
		if s["type"] != "string" || !regexp.MustCompile(pattern).MatchString(v) {
			return []string{at + ": is the text " + v}
		}
	case int:
		if s["type"] != "integer" {
			return []string{at + ": is a number"}
		}
	case bool:
		if s["type"] != "boolean" {
			return []string{at + ": is a bool"}
		}
	}
	return nil
}

// The shipped file, and what --print-config prints, conform to the schema; mistakes do
// not.
func TestFilesConformToTheSchema(t *testing.T) {
	var schema node
	if err := json.Unmarshal(JSONSchema(), &schema); err != nil {
		t.Fatal(err)
	}
	read := func(text []byte) any {
		t.Helper()
		var value map[string]any
		if err := yaml.Unmarshal(text, &value); err != nil {
			t.Fatal(err)
		}
		return value
	}
	for _, path := range []string{"../../rsc.yaml", "testdata/print.yaml"} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, complaint := range conforms(schema, read(text), path) {
			t.Error(complaint)
		}
	}
	for _, mistake := range []string{
		"coordinator: {lop: {}}", "log: {level: loud}", "coordinator: {heartbeat-interval: 3}", "coordinator: {heartbeat-interval: soon}",
		"coordinator: {loop: {enabled: 7}}", "coordinator: {redis: {port: many}}", "coordinator: {api: {users: [{user: a}]}}", "coordinator: {loop: [1]}", "server: {address: 80}",
	} {
		if len(conforms(schema, read([]byte(mistake)), "")) == 0 {
			t.Errorf("%s conforms to the schema", mistake)
		}
	}
}

// The words of the schema are those that the program takes.
func TestChoicesAreComplete(t *testing.T) {
	for key, words := range choices {
		file := key + ": nonsense"
		if list, field, isList := strings.Cut(key, "[]."); isList {
			file = list + ": [{" + field + ": nonsense}]"
		}
		_, _, complaint := load(t, file, nil)
		if want := "must be one of " + strings.Join(words, ", "); !slices.ContainsFunc(strings.Split(complaint, "\n"), func(line string) bool { return strings.HasSuffix(line, want) }) {
			t.Errorf("%s is one of %q by the schema: %q", key, words, complaint)
		}
	}
}
