package config

import (
	"encoding"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"time"

	"go.yaml.in/yaml/v3"
)

// Print writes the settings as YAML, in the order of Config's fields, with
// secrets masked.
func (c *Config) Print(w io.Writer) error {
	encoder := yaml.NewEncoder(w)
	encoder.SetIndent(2)
	if err := encoder.Encode(nodeOf(reflect.ValueOf(*c))); err != nil {
		return fmt.Errorf("print settings: %w", err)
	}
	return encoder.Close()
}

func nodeOf(v reflect.Value) *yaml.Node {
	switch value := v.Interface().(type) {
	case time.Duration:
		return scalar("!!str", formatDuration(value))
	case encoding.TextMarshaler:
		text, err := value.MarshalText()
		if err != nil {
			return scalar("!!str", mask)
		}
		return scalar("!!str", string(text))
	}
	switch v.Kind() {
	case reflect.Struct:
		node := &yaml.Node{Kind: yaml.MappingNode}
		for i := range v.NumField() {
			field := v.Type().Field(i)
			if field.Anonymous {
				node.Content = append(node.Content, nodeOf(v.Field(i)).Content...)
				continue
			}
			node.Content = append(node.Content, scalar("!!str", field.Tag.Get("key")), nodeOf(v.Field(i)))
		}
		return node
	case reflect.Slice:
		node := &yaml.Node{Kind: yaml.SequenceNode}
		if v.Len() == 0 || v.Type().Elem().Kind() == reflect.String {
			node.Style = yaml.FlowStyle
		}
		for i := range v.Len() {
			node.Content = append(node.Content, nodeOf(v.Index(i)))
		}
		return node
	case reflect.Bool:
		return scalar("!!bool", strconv.FormatBool(v.Bool()))
	case reflect.Int:
		return scalar("!!int", strconv.FormatInt(v.Int(), 10))
	default:
		return scalar("!!str", v.String())
	}
}

func scalar(tag, text string) *yaml.Node {
	node := &yaml.Node{}
	node.SetString(text)
	node.Tag = tag
	return node
}
