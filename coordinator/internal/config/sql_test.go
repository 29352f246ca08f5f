package config

import (
	"strings"
	"testing"
)

func TestWholeDatabase(t *testing.T) {
	for _, test := range []struct {
		text, driver, dsn string
	}{
		{"sqlite:./rsc.db", "sqlite", "./rsc.db"},
		{"sqlite:rsc.db", "sqlite", "rsc.db"},
		{"SQLite:///var/lib/rsc.db", "sqlite", "/var/lib/rsc.db"},
		{"sqlite3:file:rsc.db?mode=rw", "sqlite", "file:rsc.db?mode=rw"},
		{"postgres://u:hunter2@h:5432/d?sslmode=require", "postgres", "postgres://u:hunter2@h:5432/d?sslmode=require"},
		{"postgresql://h/d", "postgres", "postgres://h/d"},
		{"mysql://u:hunter2@h/d", "mysql", "mysql://u:hunter2@h/d"},
		{"mariadb://h/d", "mysql", "mysql://h/d"},
	} {
		cfg, _, err := Load(Sources{Flags: []Flag{{Key: "coordinator.store.type", Value: test.text, Name: "--store"}}})
		if err != nil {
			t.Errorf("%s: %v", test.text, err)
			continue
		}
		k := &cfg.Coordinator
		if k.Store.Type != StoreSQL || k.SQL.Driver != test.driver || k.SQL.DSN.Reveal() != test.dsn {
			t.Errorf("%s: %s %s %s", test.text, k.Store.Type, k.SQL.Driver, k.SQL.DSN.Reveal())
		}
		var printed strings.Builder
		if err := cfg.Print(&printed); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(printed.String(), "hunter2") {
			t.Errorf("%s: the password is printed", test.text)
		}
	}
	// A DSN that is a URL says itself what it is of.
	cfg, _, err := Load(Sources{Environ: []string{"COORDINATOR_STORE_TYPE=sql", "COORDINATOR_SQL_DSN=mariadb://h/d"}})
	if err != nil || cfg.Coordinator.SQL.Driver != "mysql" {
		t.Errorf("driver %q, %v", cfg.Coordinator.SQL.Driver, err)
	}
}

func TestNoWholeDatabase(t *testing.T) {
	for _, text := range []string{"sqlite:", "postgres:h/d", ":", "oracle://u:hunter2@h/d"} {
		_, _, err := Load(Sources{Flags: []Flag{{Key: "coordinator.store.type", Value: text, Name: "--store"}}})
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", text, err)
		}
	}
}
