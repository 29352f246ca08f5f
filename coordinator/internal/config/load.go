package config

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"

	"github.com/knadh/koanf/providers/confmap"
	"github.com/knadh/koanf/v2"
)

// Flag is a setting given on the command line.
type Flag struct {
	// Key is the setting, Value its value.
	Key, Value string
	// Name is how the command line calls it, such as --address.
	Name string
}

// Sources are where settings come from, each overriding the one before.
type Sources struct {
	// File is the path of a YAML file; empty for none.
	File string
	// Environ are environment variables in the form NAME=value, as os.Environ
	// gives them.
	Environ []string
	// Flags come from the command line, in order.
	Flags []Flag
}

// Load returns the effective, validated settings and the warnings that whoever
// runs the coordinator should see. The error joins everything that is wrong,
// each part naming the key and where the value stands.
func Load(sources Sources) (Config, []string, error) {
	l := &loader{environ: environOf(sources.Environ), given: koanf.New("."), source: map[string]string{}}
	l.layer(l.readDocumented())
	if sources.File != "" {
		l.layer(l.readFile(sources.File))
	}
	l.layer(l.readEnviron())
	l.layer(flagsOf(sources.Flags))

	config := Default()
	l.bad = append(l.bad, decode(&config, l.values()))
	if err := errors.Join(l.bad...); err != nil {
		return Config{}, l.warnings, err
	}
	l.resolve(&config)
	l.bad = append(l.bad, config.Validate())
	if err := errors.Join(l.bad...); err != nil {
		return Config{}, l.warnings, err
	}
	return config, l.warnings, nil
}

// loader gathers settings layer by layer.
type loader struct {
	environ map[string]string
	// given holds what the layers say together, source where each key was last
	// set.
	given    *koanf.Koanf
	source   map[string]string
	warnings []string
	bad      []error
}

func (l *loader) warn(format string, args ...any) {
	l.warnings = append(l.warnings, fmt.Sprintf(format, args...))
}

// layer puts values on top of those there are, after looking at their keys.
func (l *loader) layer(values map[string]value) {
	known := map[string]any{}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		v := values[key]
		if !l.accept(key, v) {
			continue
		}
		known[key], l.source[key] = v.raw, v.source
		for _, s := range stronger {
			if _, both := values[s.than]; s.key == key && !both && s.when(v.raw) {
				known[s.than], l.source[s.than] = s.none, v.source
			}
		}
	}
	// The only error of this provider is a bug: it reads a map.
	l.bad = append(l.bad, l.given.Load(confmap.Provider(known, "."), nil))
}

// stronger lists settings that say the same as another in other words, or in
// place of it. A later layer that gives one of these alone must not be overruled
// by the other of an earlier layer: key takes away than.
var stronger = []struct {
	key, than string
	none      any
	when      func(raw any) bool
}{
	{"server.address", "server.port", 0, hasPort},
	{"coordinator.redis.host", "coordinator.redis.url", "", isSaid},
	{"coordinator.redis.addresses", "coordinator.redis.url", "", isSaid},
	{"coordinator.redis.sentinel.master", "coordinator.redis.url", "", isSaid},
	{"coordinator.redis.url", "coordinator.redis.addresses", []any{}, isSaid},
}

// isSaid reports whether a value is more than nothing.
func isSaid(raw any) bool {
	list, isList := raw.([]any)
	return raw != "" && (!isList || len(list) > 0)
}

// accept reports whether key is a setting with a value, and complains if there
// is reason to.
func (l *loader) accept(key string, v value) bool {
	if _, ok := find(settings, key); ok {
		return v.raw != nil
	}
	if says, ok := retiredKey(key); ok {
		l.warn("%s: ignored; %s (%s)", key, says, v.source)
		return false
	}
	switch {
	case !isSection(settings, key):
		l.bad = append(l.bad, valueError(key, v, unknownKey(settings, key)))
	case !isEmpty(v.raw):
		l.bad = append(l.bad, valueError(key, v, errors.New("is a section, it cannot have a value itself")))
	}
	return false
}

// values returns what the layers say together.
func (l *loader) values() map[string]value {
	all := l.given.All()
	values := make(map[string]value, len(all))
	for key, raw := range all {
		values[key] = value{raw: raw, source: l.source[key]}
	}
	return values
}

// has reports whether any layer says something about a key.
func (l *loader) has(key string) bool { return l.given.Exists(key) }

func flagsOf(flags []Flag) map[string]value {
	values := make(map[string]value, len(flags))
	for _, f := range flags {
		values[f.Key] = value{raw: f.Value, source: f.Name}
	}
	return values
}

func environOf(list []string) map[string]string {
	environ := make(map[string]string, len(list))
	for _, one := range list {
		name, text, _ := strings.Cut(one, "=")
		environ[name] = text
	}
	return environ
}

func isEmpty(raw any) bool {
	section, ok := raw.(map[string]any)
	return raw == nil || ok && len(section) == 0
}

func hasPort(address any) bool {
	text, ok := address.(string)
	if !ok {
		return false
	}
	_, port, err := net.SplitHostPort(text)
	return err == nil && port != ""
}
