package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// Seen from this package: the top of the repository, and the page.
var (
	repository = filepath.Join("..", "..", "..")
	page       = filepath.Join(repository, "docs", "configuration.md")
)

// depends are the defaults that are no fixed value.
var depends = map[string]string{
	"coordinator.id":                           "the host's name",
	"coordinator.store.type":                   "`redis` if a Redis is configured, else `memory`",
	"coordinator.streams.provisioning-enabled": "`true` if a Redis is configured",
	"coordinator.streams.declared[].shards":    "`coordinator.defaults.initial-shard-count`",
	"coordinator.api.admin-password":           "`" + DefaultPassword + "`", // printing masks it
}

// defaultsOf returns each key with the default as the page writes it.
func defaultsOf(list []setting, value reflect.Value, prefix string) map[string]string {
	defaults := map[string]string{}
	for _, s := range list {
		field := value.FieldByIndex(s.index)
		key := prefix + s.key
		text := "none"
		if s.element != nil {
			element := reflect.New(field.Type().Elem())
			if d, ok := element.Interface().(interface{ setDefaults() }); ok {
				d.setDefaults()
			}
			for key, text := range defaultsOf(s.element, element.Elem(), key+"[].") {
				defaults[key] = text
			}
		} else if printed := nodeOf(field).Value; printed != "" {
			text = "`" + printed + "`"
		}
		if other, ok := depends[key]; ok {
			text = other
		}
		defaults[key] = text
	}
	return defaults
}

// docs/configuration.md lists every setting once, with its default.
func TestPageListsEverySetting(t *testing.T) {
	if _, err := os.Stat(filepath.Join(repository, "go.work")); errors.Is(err, fs.ErrNotExist) {
		t.Skip("the module stands alone, without the repository's pages")
	}
	content, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	config := Default()
	want := defaultsOf(settings, reflect.ValueOf(config), "")
	listed := map[string]bool{}
	for line := range strings.Lines(string(content)) {
		cells := strings.Split(strings.TrimSpace(line), " | ")
		key, isKey := strings.CutPrefix(cells[0], "| `")
		key, closed := strings.CutSuffix(key, "`")
		if !isKey || !closed {
			continue
		}
		text, known := want[key]
		switch {
		case !known:
			t.Errorf("the page lists %s, which is no setting", key)
		case listed[key]:
			t.Errorf("the page lists %s twice", key)
		case len(cells) < 2 || cells[1] != text:
			t.Errorf("the page says of %s: %q, the default is %q", key, strings.Join(cells[1:], " | "), text)
		}
		listed[key] = true
	}
	for key, text := range want {
		if !listed[key] {
			t.Errorf("the page does not list %s; add: | `%s` | %s | … |", key, key, text)
		}
	}
}
