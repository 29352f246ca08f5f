package config

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	"github.com/knadh/koanf/parsers/yaml"
	"github.com/knadh/koanf/providers/rawbytes"
	"github.com/knadh/koanf/v2"
)

// maxFileBytes bounds the file: a mistaken path must not be read for ever.
const maxFileBytes = 1 << 20

// readFile returns what a YAML file says, placeholders replaced.
func (l *loader) readFile(path string) map[string]value {
	text, err := readBounded(path)
	if err != nil {
		l.bad = append(l.bad, err)
		return nil
	}
	k := koanf.New(".")
	if err := k.Load(rawbytes.Provider(text), yaml.Parser()); err != nil {
		l.bad = append(l.bad, fmt.Errorf("%s: is not a YAML file with settings: %w", path, err))
		return nil
	}
	values := map[string]value{}
	for _, key := range slices.Sorted(maps.Keys(k.All())) {
		v := value{raw: k.All()[key], source: path}
		raw, err := expandAll(v.raw, l.environ)
		if err != nil {
			l.bad = append(l.bad, valueError(key, v, err))
			continue
		}
		v.raw = raw
		values[key] = v
	}
	return values
}

func readBounded(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read settings: %w", err)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("read settings: %w", err)
	}
	if len(text) > maxFileBytes {
		return nil, fmt.Errorf("%s: is larger than %d bytes, so it cannot be a settings file", path, maxFileBytes)
	}
	return text, nil
}

// expandAll expands the placeholders in every text inside a value.
func expandAll(raw any, environ map[string]string) (any, error) {
	switch raw := raw.(type) {
	case string:
		return expand(raw, environ)
	case []any:
		list := make([]any, len(raw))
		for i, one := range raw {
			expanded, err := expandAll(one, environ)
			if err != nil {
				return nil, fmt.Errorf("entry %d: %w", i+1, err)
			}
			list[i] = expanded
		}
		return list, nil
	case map[string]any:
		section := make(map[string]any, len(raw))
		for _, key := range slices.Sorted(maps.Keys(raw)) {
			expanded, err := expandAll(raw[key], environ)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", key, err)
			}
			section[key] = expanded
		}
		return section, nil
	}
	return raw, nil
}
