package database

import (
	dbsql "database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	_ "modernc.org/sqlite" // the driver
)

// sqliteConnections is how many read at the same time; one of them may write.
const sqliteConnections = 8

func openSQLite(dsn string) (opened, error) {
	path, _, _ := strings.Cut(strings.TrimPrefix(dsn, "file:"), "?")
	if path == "" || strings.Contains(path, ":memory:") {
		return opened{}, errors.New("the DSN must be the path of a file, such as ./rsc.db: to keep nothing there is coordinator.store.type memory")
	}
	folder := filepath.Dir(path)
	if info, err := os.Stat(folder); err != nil || !info.IsDir() {
		return opened{}, fmt.Errorf("there is no folder %s for the SQLite file: make it first", folder)
	}
	pool, err := dbsql.Open("sqlite", dsn)
	if err != nil {
		return opened{}, fmt.Errorf("open the SQLite file %s: %w", path, err)
	}
	pool.SetMaxOpenConns(sqliteConnections)
	pool.SetMaxIdleConns(sqliteConnections)
	return opened{pool: pool}, nil
}
