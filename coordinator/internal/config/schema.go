package config

import (
	"reflect"
	"slices"
	"strings"
)

// setting is one key of the configuration.
type setting struct {
	key string
	// index leads from Config to the field.
	index []int
	// element holds the settings of one element, for a list of structures.
	element []setting
}

// settings are all keys, in the order of Config's fields.
var settings = settingsOf(reflect.TypeFor[Config](), "", nil)

// settingsOf walks a structure down to the fields that hold values.
func settingsOf(t reflect.Type, prefix string, index []int) []setting {
	var list []setting
	for i := range t.NumField() {
		field := t.Field(i)
		key := prefix + field.Tag.Get("key")
		at := append(slices.Clone(index), i)
		switch {
		case field.Anonymous:
			list = append(list, settingsOf(field.Type, prefix, at)...)
		case field.Type.Kind() == reflect.Struct:
			list = append(list, settingsOf(field.Type, key+".", at)...)
		case isList(field.Type):
			list = append(list, setting{key: key, index: at, element: settingsOf(field.Type.Elem(), "", nil)})
		default:
			list = append(list, setting{key: key, index: at})
		}
	}
	return list
}

// isList reports a list of structures; a list of texts is a plain value.
func isList(t reflect.Type) bool {
	return t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct
}

// find returns the setting with a key.
func find(list []setting, key string) (setting, bool) {
	i := slices.IndexFunc(list, func(s setting) bool { return s.key == key })
	if i < 0 {
		return setting{}, false
	}
	return list[i], true
}

// isSection reports whether key is above settings rather than one.
func isSection(list []setting, key string) bool {
	return slices.ContainsFunc(list, func(s setting) bool { return strings.HasPrefix(s.key, key+".") })
}

// nearest returns the key that is most like one that does not exist, empty when
// none is near.
func nearest(list []setting, key string) string {
	// Mistakes are made in one word of a key, so its last one sets the measure.
	best, limit := "", max(2, (len(key)-strings.LastIndexByte(key, '.'))/3)
	for _, s := range list {
		if d := editDistance(key, s.key); d <= limit {
			best, limit = s.key, d-1
		}
	}
	return best
}

// editDistance counts the letters to insert, remove or replace between a and b.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
