package sql

import (
	"context"
	dbsql "database/sql"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/port"
)

// postgres is PostgreSQL. Lists are sent as the texts of arrays, which every driver
// passes on, so that a statement is the same for each number of rows.
//
// The time of the server's start and the row of the unlogged table change with a
// restart; a server that cleans up after one of its processes has died keeps the
// former, and empties the table.
func postgres() dialect {
	return dialect{
		numbered: true,
		instance: "(SELECT convert_to((extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint::text || '-', 'UTF8') || i.name FROM rsc_instance i)",
		lock:     " FOR NO KEY UPDATE OF g",

		insertNew: "INSERT",
		orNothing: " ON CONFLICT DO NOTHING",

		begin:     postgresBegin,
		lives:     arrays{},
		renew:     postgresRenew,
		announce:  postgresAnnounce,
		migration: migration{folder: "postgres", lock: "SELECT pg_advisory_xact_lock(?)", transactional: true},
	}
}

// postgresBegin starts a transaction in one message. Whoever waits for a lock waits no
// longer than two seconds: others have leases to renew.
func postgresBegin(lasting bool, still time.Duration) []string {
	text := fmt.Sprintf("BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL idle_in_transaction_session_timeout = %d; SET LOCAL lock_timeout = 2000", still.Milliseconds())
	if !lasting {
		text += "; SET LOCAL synchronous_commit = off"
	}
	return []string{text}
}

const postgresUpsert = ` ON CONFLICT (group_id, life) DO UPDATE SET
	stamp = COALESCE(EXCLUDED.stamp, l.stamp), report = COALESCE(EXCLUDED.report, l.report)`

// postgresRenew: the row of the group is locked, and its version compared once more if
// it had to be waited for. The commit is not waited for.
func postgresRenew(ctx context.Context, s *Store, key port.GroupKey, at port.Version, changes lifeChanges) error {
	life, stamp, report := columns(changes.write)
	var found int
	var off dbsql.NullString
	err := s.db.QueryRowContext(ctx, s.text(`WITH held AS (
			SELECT g.id FROM rsc_groups g WHERE g.stream = ? AND g.grp = ? AND g.revision = ? AND g.nonce = ?
				AND (octet_length(?::bytea) = 0 OR `+s.dialect.instance+` = ?::bytea)
			FOR NO KEY UPDATE OF g
		), written AS (
			INSERT INTO rsc_lives AS l (group_id, life, stamp, report)
			SELECT held.id, u.life, u.stamp, u.report
			FROM held, unnest(?::bytea[], ?::bytea[], ?::bytea[]) AS u (life, stamp, report)`+postgresUpsert+`
		)
		SELECT count(*), set_config('synchronous_commit', 'off', true) FROM held`),
		[]byte(key.Stream), []byte(key.Group), at.Revision, []byte(at.Nonce), []byte(at.Instance), []byte(at.Instance), life, stamp, report,
	).Scan(&found, &off)
	if err != nil {
		if s.passes(err) {
			return &unwritten{err: err}
		}
		return err
	}
	if found == 0 {
		return port.ErrConflict
	}
	return nil
}

func postgresAnnounce(ctx context.Context, t *tx, channel, payload string) error {
	_, err := t.exec(ctx, "SELECT pg_notify($1, $2)", channel, payload)
	return err
}

// arrays writes the rows of rsc_lives in one statement, however many there are.
type arrays struct{}

func (arrays) upsert(ctx context.Context, t *tx, group int64, rows []lifeRow) error {
	life, stamp, report := columns(rows)
	_, err := t.exec(ctx, t.text(`INSERT INTO rsc_lives AS l (group_id, life, stamp, report)
		SELECT ?::bigint, u.life, u.stamp, u.report FROM unnest(?::bytea[], ?::bytea[], ?::bytea[]) AS u (life, stamp, report)`+postgresUpsert),
		group, life, stamp, report)
	return err
}

func (arrays) unstamp(ctx context.Context, t *tx, group int64, lives []string) error {
	_, err := t.exec(ctx, t.text(`WITH gone AS (
			DELETE FROM rsc_lives WHERE group_id = ? AND life = ANY (?::bytea[]) AND report IS NULL
		)
		UPDATE rsc_lives SET stamp = NULL WHERE group_id = ? AND life = ANY (?::bytea[]) AND report IS NOT NULL`),
		group, byteaArray(lives), group, byteaArray(lives))
	return err
}

func (arrays) remove(ctx context.Context, t *tx, group int64, lives []string) error {
	_, err := t.exec(ctx, t.text("DELETE FROM rsc_lives WHERE group_id = ? AND life = ANY (?::bytea[])"), group, byteaArray(lives))
	return err
}

// columns are the columns of rows, as texts of arrays.
func columns(rows []lifeRow) (life, stamp, report string) {
	var lives, stamps, reports arrayText
	for _, r := range rows {
		lives.add([]byte(r.life))
		stamps.add(r.stamp)
		reports.add(r.report)
	}
	return lives.String(), stamps.String(), reports.String()
}

func byteaArray(list []string) string {
	var a arrayText
	for _, one := range list {
		a.add([]byte(one))
	}
	return a.String()
}

// arrayText is the text of an array of bytes. The zero value is an empty one.
type arrayText struct{ b []byte }

// add appends an element, NULL for nil.
func (a *arrayText) add(element []byte) {
	if len(a.b) > 0 {
		a.b = append(a.b, ',')
	}
	if element == nil {
		a.b = append(a.b, "NULL"...)
		return
	}
	a.b = append(a.b, `"\\x`...)
	a.b = hex.AppendEncode(a.b, element)
	a.b = append(a.b, '"')
}

func (a *arrayText) String() string {
	var b strings.Builder
	b.Grow(len(a.b) + 2)
	b.WriteByte('{')
	b.Write(a.b)
	b.WriteByte('}')
	return b.String()
}
