package config

import (
	"regexp"
	"strings"
)

// The kinds of databases.
const (
	driverPostgres = "postgres"
	driverMySQL    = "mysql"
	driverSQLite   = "sqlite"
)

// drivers are what a kind of database is called.
var drivers = map[string]string{
	driverPostgres: driverPostgres, "postgresql": driverPostgres, "pgx": driverPostgres,
	driverMySQL: driverMySQL, "mariadb": driverMySQL,
	driverSQLite: driverSQLite, "sqlite3": driverSQLite,
}

// tablePrefixes are those that adapters/sql takes.
var tablePrefixes = regexp.MustCompile(`^[a-z][a-z0-9_]{0,31}$`)

// splitStore takes a store apart that names a whole database: sqlite:./rsc.db, or a URL
// such as postgres://user@host/database.
func splitStore(text string) (driver, dsn string, ok bool) {
	scheme, rest, found := strings.Cut(text, ":")
	driver, known := drivers[strings.ToLower(scheme)]
	switch {
	case !found || !known || rest == "":
		return "", "", false
	case driver == driverSQLite:
		return driver, strings.TrimPrefix(rest, "//"), true
	case !strings.HasPrefix(rest, "//"):
		return "", "", false
	}
	return driver, driver + ":" + rest, true
}

// resolveStore settles which database is meant.
func (c *Coordinator) resolveStore() {
	if c.Store.Type == "jdbc" {
		c.Store.Type = StoreSQL
	}
	if driver, dsn, ok := splitStore(c.Store.Type); ok {
		c.Store.Type, c.SQL.Driver, c.SQL.DSN = StoreSQL, driver, Secret(dsn)
	}
	if driver, known := drivers[strings.ToLower(c.SQL.Driver)]; known {
		c.SQL.Driver = driver
	}
	if c.SQL.Driver == "" {
		// Many names say themselves what they are of.
		if driver, dsn, ok := splitStore(c.SQL.DSN.Reveal()); ok {
			c.SQL.Driver, c.SQL.DSN = driver, Secret(dsn)
		}
	}
}

func (s *SQL) validate(bad *complaints, store string) {
	const key = "coordinator.sql."
	if !tablePrefixes.MatchString(s.TablePrefix) {
		bad.addf(key+"table-prefix", "is %.40q, must be at most 32 small letters, digits and underscores, a letter first", s.TablePrefix)
	}
	if store != StoreSQL {
		return
	}
	if s.DSN == "" {
		bad.addf(key+"dsn", "must name the database, because coordinator.store.type is %s", StoreSQL)
	}
	bad.oneOf(key+"driver", s.Driver, driverPostgres, driverMySQL, driverSQLite)
}
