package sql

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/port"
)

const (
	// mysqlRows is how many rows one statement writes.
	mysqlRows = 256
	// mysqlPacketRest is what a packet holds besides a body.
	mysqlPacketRest = 64 << 10
)

// mysql is MySQL or MariaDB. Every read that a write rests on locks, and a locking
// read sees what was committed last, whatever the isolation level; the row of the
// group comes first, so that what lies beside it stands still.
//
// A replica has the row of rsc_instance, too, but another host, port or id, and only
// reads: it is no instance until it is promoted.
func mysql() dialect {
	return dialect{
		instance: "(SELECT IF(@@global.read_only, NULL, CAST(CONCAT(@@hostname, ':', @@port, '-', @@server_id, '-', i.name) AS BINARY)) FROM rsc_instance i)",
		lock:     " FOR UPDATE",

		insertNew: "INSERT IGNORE",

		begin:       mysqlBegin,
		after:       "SET SESSION wait_timeout = 600",
		lives:       chunked{onConflict: mysqlUpsert, most: mysqlRows},
		renew:       mysqlRenew,
		prepareFrom: 256 << 10,
		maxBody:     mysqlMaxBody,
		migration:   migration{folder: "mysql", lock: "SELECT GET_LOCK(?, 30)", unlock: "SELECT RELEASE_LOCK(?)"},
	}
}

// mysqlBegin starts a transaction. Its limit counts in whole seconds, and whoever waits
// for a lock waits no longer than two.
func mysqlBegin(_ bool, still time.Duration) []string {
	return []string{
		fmt.Sprintf("SET SESSION wait_timeout = %d, innodb_lock_wait_timeout = 2", int(math.Ceil(still.Seconds()))),
		"START TRANSACTION",
	}
}

const mysqlUpsert = " ON DUPLICATE KEY UPDATE stamp = COALESCE(VALUES(stamp), rsc_lives.stamp), report = COALESCE(VALUES(report), rsc_lives.report)"

// mysqlRenew: no row is written unless that of the group, locked, has the version. A
// row that says the same already is not counted, so a count of 0 says nothing; then
// the version is looked at once more. Nonces are never used again: if it is still
// there, it was there all the time.
func mysqlRenew(ctx context.Context, s *Store, key port.GroupKey, at port.Version, changes lifeChanges) error {
	condition := " WHERE g.stream = ? AND g.grp = ? AND g.revision = ? AND g.nonce = ? AND (? = '' OR " + s.dialect.instance + " = ?)"
	conditions := []any{[]byte(key.Stream), []byte(key.Group), at.Revision, []byte(at.Nonce), []byte(at.Instance), []byte(at.Instance)}
	if n := len(changes.write); n > 0 {
		args := make([]any, 0, 3*n+len(conditions))
		for _, r := range changes.write {
			args = append(args, []byte(r.life), orNull(r.stamp), orNull(r.report))
		}
		text := "INSERT INTO rsc_lives (group_id, life, stamp, report) SELECT g.id, v.l, v.s, v.r FROM rsc_groups g JOIN (SELECT ? AS l, ? AS s, ? AS r"
		for range n - 1 {
			text += " UNION ALL SELECT ?, ?, ?"
		}
		result, err := s.db.ExecContext(ctx, s.text(text+") v"+condition+" FOR UPDATE"+mysqlUpsert), append(args, conditions...)...)
		if err != nil {
			if s.passes(err) {
				return &unwritten{err: err}
			}
			return err
		}
		if written, err := result.RowsAffected(); err != nil || written > 0 {
			return err
		}
	}
	var found int
	if err := s.db.QueryRowContext(ctx, s.text("SELECT COUNT(*) FROM rsc_groups g"+condition), conditions...).Scan(&found); err != nil {
		return err
	}
	if found == 0 {
		return port.ErrConflict
	}
	return nil
}

// mysqlMaxBody: a body is sent in one packet, and read in one.
func mysqlMaxBody(ctx context.Context, s *Store) (int, error) {
	var packet int
	if err := s.db.QueryRowContext(ctx, "SELECT @@max_allowed_packet").Scan(&packet); err != nil {
		return 0, err
	}
	return packet - mysqlPacketRest, nil
}
