package sql

import "time"

// sqliteRows is how many rows one statement writes.
const sqliteRows = 256

// sqlite is a SQLite file. There are no round trips to save, and one writer at a time.
func sqlite() dialect {
	return dialect{
		instance: "(SELECT i.name FROM rsc_instance i)",

		insertNew: "INSERT OR IGNORE",

		begin:     sqliteBegin,
		lives:     chunked{onConflict: sqliteUpsert, most: sqliteRows},
		embedded:  true,
		oneWriter: true,
		migration: migration{folder: "sqlite", transactional: true, setup: "PRAGMA journal_mode = WAL"},
	}
}

const sqliteUpsert = " ON CONFLICT (group_id, life) DO UPDATE SET stamp = COALESCE(excluded.stamp, stamp), report = COALESCE(excluded.report, report)"

// sqliteBegin takes the lock of the one writer at once. With the journal that is used, a
// commit that need not last is on the disk with the next one that must; a process that
// is killed loses neither.
func sqliteBegin(lasting bool, _ time.Duration) []string {
	synchronous := "PRAGMA synchronous = NORMAL"
	if lasting {
		synchronous = "PRAGMA synchronous = FULL"
	}
	// The lock is asked for again and again by whoever began, so that a call that is
	// over does not wait on.
	return []string{"PRAGMA busy_timeout = 100", synchronous, "BEGIN IMMEDIATE"}
}
