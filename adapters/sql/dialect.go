package sql

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/port"
)

// dialect is what differs between databases. Statements are written with ? and rsc_,
// see Store.text.
type dialect struct {
	// numbered says that placeholders are $1, $2, …
	numbered bool
	// instance is an expression for the name of the instance, as bytes; NULL where
	// there is none.
	instance string
	// lock ends a SELECT of rows g that are to be changed.
	lock string
	// insertNew and orNothing enclose an INSERT that leaves a row which is there alone.
	insertNew, orNothing string
	// begin starts a transaction; lasting says that it must be on the disk when it is
	// confirmed, still how long it may stand still before the database cuts it off. Each
	// text is one round trip.
	begin func(lasting bool, still time.Duration) []string
	// after is sent when a transaction is over; empty for nothing.
	after string
	// lives writes what lies beside a group.
	lives livesWriter
	// renew does a renewal in one statement. nil where a transaction costs no more.
	renew func(ctx context.Context, s *Store, key port.GroupKey, at port.Version, changes lifeChanges) error
	// announce sends a payload to a channel when the transaction ends. nil where there
	// are no channels.
	announce func(ctx context.Context, t *tx, channel, payload string) error
	// embedded says that the database is in this process: no connection to it is lost.
	embedded bool
	// oneWriter says that writers of this process had better wait for each other here.
	oneWriter bool
	// prepareFrom is the size of a body from which a statement is prepared, so that the
	// body is sent as it is; 0 for never.
	prepareFrom int
	// maxBody asks for the largest body that the database takes. nil for any.
	maxBody func(ctx context.Context, s *Store) (int, error)
	// migration is how migrations are kept apart.
	migration migration
}

// livesWriter writes rows of rsc_lives in a transaction that has locked their group.
type livesWriter interface {
	// upsert adds rows, or replaces what they say.
	upsert(ctx context.Context, t *tx, group int64, rows []lifeRow) error
	// unstamp removes the stamps of incarnations and leaves their reports.
	unstamp(ctx context.Context, t *tx, group int64, lives []string) error
	// remove removes stamps and reports.
	remove(ctx context.Context, t *tx, group int64, lives []string) error
}

func dialectOf(name Dialect) dialect {
	switch name {
	case Postgres:
		return postgres()
	case MySQL:
		return mysql()
	default:
		return sqlite()
	}
}

// text makes a statement of the database's kind, on the tables of this store.
func (s *Store) text(statement string) string {
	statement = strings.ReplaceAll(statement, "rsc_", s.cfg.TablePrefix)
	if !s.dialect.numbered {
		return statement
	}
	var b strings.Builder
	for n := 1; ; n++ {
		before, rest, more := strings.Cut(statement, "?")
		b.WriteString(before)
		if !more {
			return b.String()
		}
		b.WriteByte('$')
		b.WriteString(strconv.Itoa(n))
		statement = rest
	}
}

// revision reads a revision: 0 where there is no row, and below 0 where it is none that
// a program of ours has written.
const revision = "CASE WHEN g.revision < 1 THEN -1 ELSE COALESCE(g.revision, 0) END"

// statements are the texts of a store, made once.
type statements struct {
	instance, drawInstance string
	identity, drawIdentity string
	emptied                string

	loadGroup, lockGroup, newGroup, groupID, saveGroup, deleteGroup string
	deleteLives, stamps, reports, listGroups                        string

	loadStream, lockStream, newStream, saveStream, deleteStream, listStreams string
}

func (s *Store) newStatements() statements {
	d := &s.dialect
	return statements{
		instance:     s.text("SELECT " + d.instance),
		drawInstance: s.text(d.insertNew + " INTO rsc_instance (one, name) VALUES (1, ?)" + d.orNothing),
		identity:     s.text("SELECT id, emptied FROM rsc_store WHERE one = 1"),
		drawIdentity: s.text(d.insertNew + " INTO rsc_store (one, id, emptied) VALUES (1, ?, 0)" + d.orNothing),
		emptied:      s.text("UPDATE rsc_store SET emptied = 1 WHERE one = 1"),

		// One statement sees one moment. The first row is the record, the others are
		// stamps.
		loadGroup: s.text("SELECT 0, here.name, " + revision + ", g.nonce," +
			" CASE WHEN g.revision = ? AND g.nonce = ? AND here.name = ? THEN NULL ELSE g.body END" +
			" FROM (SELECT " + d.instance + " AS name) here LEFT JOIN rsc_groups g ON g.stream = ? AND g.grp = ?" +
			" UNION ALL SELECT 1, NULL, 0, l.life, l.stamp FROM rsc_groups g JOIN rsc_lives l ON l.group_id = g.id" +
			" WHERE g.stream = ? AND g.grp = ? AND l.stamp IS NOT NULL"),
		lockGroup: s.text("SELECT g.id, g.revision, g.nonce, " + d.instance + " FROM rsc_groups g WHERE g.stream = ? AND g.grp = ?" + d.lock),
		newGroup: s.text(d.insertNew + " INTO rsc_groups (stream, grp, revision, nonce, body, schema_version, updated_at)" +
			" VALUES (?, ?, 1, ?, ?, ?, ?)" + d.orNothing),
		groupID:     s.text("SELECT id FROM rsc_groups WHERE stream = ? AND grp = ?"),
		saveGroup:   s.text("UPDATE rsc_groups SET revision = ?, nonce = ?, body = ?, schema_version = ?, updated_at = ? WHERE id = ?"),
		deleteGroup: s.text("DELETE FROM rsc_groups WHERE id = ?"),
		deleteLives: s.text("DELETE FROM rsc_lives WHERE group_id = ?"),
		stamps:      s.text("SELECT life, stamp FROM rsc_lives WHERE group_id = ? AND stamp IS NOT NULL"),
		reports: s.text("SELECT l.life, l.report FROM rsc_groups g JOIN rsc_lives l ON l.group_id = g.id" +
			" WHERE g.stream = ? AND g.grp = ? AND l.report IS NOT NULL"),
		listGroups: s.text("SELECT stream, grp FROM rsc_groups"),

		loadStream: s.text("SELECT here.name, " + revision + ", g.nonce, g.body" +
			" FROM (SELECT " + d.instance + " AS name) here LEFT JOIN rsc_streams g ON g.prefix = ?"),
		lockStream:   s.text("SELECT 0, g.revision, g.nonce, " + d.instance + " FROM rsc_streams g WHERE g.prefix = ?" + d.lock),
		newStream:    s.text(d.insertNew + " INTO rsc_streams (prefix, revision, nonce, body) VALUES (?, 1, ?, ?)" + d.orNothing),
		saveStream:   s.text("UPDATE rsc_streams SET revision = ?, nonce = ?, body = ? WHERE prefix = ?"),
		deleteStream: s.text("DELETE FROM rsc_streams WHERE prefix = ?"),
		listStreams:  s.text("SELECT prefix FROM rsc_streams"),
	}
}
