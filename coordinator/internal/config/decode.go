package config

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// value is what a source says about one setting.
type value struct {
	// raw is a text, a number, a bool, a list or nil. A text is read as whatever
	// the setting needs, since the environment knows nothing else.
	raw any
	// source is where it stands, for messages.
	source string
}

// valueError complains about the value of one key.
func valueError(key string, v value, err error) error {
	return fmt.Errorf("%s: %w (%s)", key, err, v.source)
}

// decode writes values into config. Keys must be those of settings.
func decode(config *Config, values map[string]value) error {
	var bad []error
	root := reflect.ValueOf(config).Elem()
	for _, s := range settings {
		v, given := values[s.key]
		if !given {
			continue
		}
		field := root.FieldByIndex(s.index)
		if s.element != nil {
			bad = append(bad, decodeList(field, s, v))
			continue
		}
		if err := set(field, v.raw); err != nil {
			bad = append(bad, valueError(s.key, v, err))
		}
	}
	return errors.Join(bad...)
}

// decodeList replaces a list of structures.
func decodeList(field reflect.Value, s setting, v value) error {
	items, ok := v.raw.([]any)
	if !ok {
		if v.raw == "" {
			return nil
		}
		return valueError(s.key, v, errors.New("must be a list"))
	}
	var bad []error
	list := reflect.MakeSlice(field.Type(), len(items), len(items))
	for i, item := range items {
		at := fmt.Sprintf("%s[%d]", s.key, i)
		fields, ok := item.(map[string]any)
		if !ok {
			bad = append(bad, valueError(at, v, errors.New("must have settings of its own, such as "+s.element[0].key)))
			continue
		}
		element := list.Index(i)
		if d, ok := element.Addr().Interface().(interface{ setDefaults() }); ok {
			d.setDefaults()
		}
		for _, key := range slices.Sorted(maps.Keys(fields)) {
			known, ok := find(s.element, key)
			if !ok {
				bad = append(bad, valueError(at+"."+key, v, unknownKey(s.element, key)))
				continue
			}
			if err := set(element.FieldByIndex(known.index), fields[key]); err != nil {
				bad = append(bad, valueError(at+"."+key, v, err))
			}
		}
	}
	field.Set(list)
	return errors.Join(bad...)
}

func unknownKey(list []setting, key string) error {
	if near := nearest(list, key); near != "" {
		return fmt.Errorf("no such setting, did you mean %s?", near)
	}
	return errors.New("no such setting")
}

// set writes one value into a field, strictly: nothing is rounded, cut or
// guessed. No value, or an empty one where a text is not what is needed, leaves
// the field as it is: that is what placeholders without a default give.
func set(field reflect.Value, raw any) error {
	if raw == nil || raw == "" && field.Kind() != reflect.String {
		return nil
	}
	switch field.Interface().(type) {
	case time.Duration:
		text, ok := raw.(string)
		if !ok {
			return fmt.Errorf("is %v, %w", raw, errNoDuration)
		}
		d, err := parseDuration(strings.TrimSpace(text))
		if err != nil {
			return fmt.Errorf("is %.40q, %w", text, err)
		}
		field.SetInt(int64(d))
		return nil
	case []string:
		list, err := texts(raw)
		field.Set(reflect.ValueOf(list))
		return err
	}
	switch field.Kind() {
	case reflect.String:
		return setText(field, raw)
	case reflect.Bool:
		return setBool(field, raw)
	case reflect.Int:
		return setInt(field, raw)
	}
	return fmt.Errorf("a setting of type %s cannot be read", field.Type())
}

func setText(field reflect.Value, raw any) error {
	switch raw := raw.(type) {
	case string:
		field.SetString(raw)
	default:
		// YAML reads 007, 1e3 and yes as something else than they look like, so
		// the text is not put together again from what it read.
		return errors.New("must be a text: put it into quotes")
	}
	return nil
}

func setBool(field reflect.Value, raw any) error {
	switch raw := raw.(type) {
	case bool:
		field.SetBool(raw)
		return nil
	case string:
		switch strings.ToLower(strings.TrimSpace(raw)) {
		case "true":
			field.SetBool(true)
			return nil
		case "false":
			field.SetBool(false)
			return nil
		}
	}
	return fmt.Errorf("is %s, must be true or false", show(raw))
}

func setInt(field reflect.Value, raw any) error {
	switch raw := raw.(type) {
	case int:
		field.SetInt(int64(raw))
		return nil
	case float64:
		if raw == math.Trunc(raw) && math.Abs(raw) < 1<<53 {
			field.SetInt(int64(raw))
			return nil
		}
	case string:
		n, err := strconv.Atoi(strings.TrimSpace(raw))
		if err == nil {
			field.SetInt(int64(n))
			return nil
		}
	}
	return fmt.Errorf("is %s, must be a whole number", show(raw))
}

// texts reads a list of texts; a single text is split at its commas.
func texts(raw any) ([]string, error) {
	switch raw := raw.(type) {
	case string:
		var list []string
		for one := range strings.SplitSeq(raw, ",") {
			if one = strings.TrimSpace(one); one != "" {
				list = append(list, one)
			}
		}
		return list, nil
	case []any:
		list := make([]string, len(raw))
		for i, one := range raw {
			text, ok := one.(string)
			if !ok {
				return nil, fmt.Errorf("entry %d is %s, must be a text: put it into quotes", i+1, show(one))
			}
			list[i] = text
		}
		return list, nil
	}
	return nil, errors.New("must be a list of texts, or texts with commas between them")
}

// show quotes a value in a message. Settings that hold secrets are texts, and no
// message about a text shows it.
func show(raw any) string {
	switch raw := raw.(type) {
	case nil:
		return "empty"
	case string:
		return fmt.Sprintf("%.40q", raw)
	case map[string]any:
		return "a section"
	case []any:
		return "a list"
	}
	return fmt.Sprintf("%v", raw)
}
