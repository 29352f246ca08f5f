package sql

import (
	"cmp"
	"context"
	"crypto/sha256"
	dbsql "database/sql"
	"embed"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ErrSchema refuses the tables of a newer program, which this one would not understand.
var ErrSchema = errors.New("the tables in the database are of a newer program: run that one, or give this one another database or table prefix")

// migrationTimeout bounds the making of tables, and the wait for another program that
// is about it.
const migrationTimeout = time.Minute

//go:embed migrations
var migrationFiles embed.FS

// migration is how a kind of database is brought up to date.
type migration struct {
	// folder holds the files, below migrations.
	folder string
	// lock is sent first, with a number or a name that stands for the store; it returns
	// when nobody else is about it. Empty where a transaction does that. unlock lets go.
	lock, unlock string
	// transactional says that definitions take place with their transaction, or not.
	transactional bool
	// setup is sent before all else; empty for nothing.
	setup string
}

// step is one version of the tables.
type step struct {
	version    int
	statements []string
}

// steps reads the migrations of a dialect, in order.
func steps(folder string) ([]step, error) {
	dir := path.Join("migrations", folder)
	files, err := fs.ReadDir(migrationFiles, dir)
	if err != nil {
		return nil, err
	}
	var list []step
	for _, file := range files {
		number, _, _ := strings.Cut(file.Name(), "_")
		version, err := strconv.Atoi(number)
		if err != nil {
			return nil, fmt.Errorf("migration %s: %w", file.Name(), err)
		}
		text, err := fs.ReadFile(migrationFiles, path.Join(dir, file.Name()))
		if err != nil {
			return nil, err
		}
		list = append(list, step{version, statementsOf(string(text))})
	}
	slices.SortFunc(list, func(a, b step) int { return cmp.Compare(a.version, b.version) })
	return list, nil
}

// statementsOf takes a file apart: a statement ends with the line that ends with a
// semicolon, and a line that begins with -- is for people.
func statementsOf(text string) []string {
	var list []string
	var b strings.Builder
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimSpace(line), "--") {
			continue
		}
		b.WriteString(line)
		if whole, ends := strings.CutSuffix(strings.TrimSpace(b.String()), ";"); ends {
			list = append(list, whole)
			b.Reset()
		}
	}
	return list
}

// migrate brings the tables up to date. Where they are, it only reads, and needs no
// permission for more.
func (s *Store) migrate(ctx context.Context) error {
	ctx, done := context.WithTimeoutCause(ctx, migrationTimeout, errTimeout)
	defer done()
	m := s.dialect.migration
	list, err := steps(m.folder)
	if err != nil {
		return err
	}
	latest := list[len(list)-1].version
	if version, err := s.schema(ctx, s.db); err == nil && version >= latest {
		return refuseNewer(version, latest)
	}
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // it goes back to the pool, or was given up
	err = s.again(ctx, func() error { return s.migrateOn(ctx, conn, list) })
	if err != nil {
		return fmt.Errorf("make the tables: %w", err)
	}
	return nil
}

func refuseNewer(version, latest int) error {
	if version > latest {
		return fmt.Errorf("%w (the tables have version %d, this program knows %d)", ErrSchema, version, latest)
	}
	return nil
}

// schema returns the version of the tables that there are.
func (s *Store) schema(ctx context.Context, from queryer) (int, error) {
	var version int
	err := from.QueryRowContext(ctx, s.text("SELECT COALESCE(MAX(version), 0) FROM rsc_schema")).Scan(&version)
	return version, err
}

// migrateOn makes the versions that are missing, on one connection, while nobody else
// does.
func (s *Store) migrateOn(ctx context.Context, conn *dbsql.Conn, list []step) (err error) {
	m := s.dialect.migration
	if m.setup != "" {
		if _, err := conn.ExecContext(ctx, m.setup); err != nil {
			return &unwritten{err: err}
		}
	}
	if m.transactional {
		// The limits of an ordinary transaction would end the wait for another program.
		begin := "BEGIN"
		if s.dialect.oneWriter {
			begin = "BEGIN IMMEDIATE"
		}
		if _, err := conn.ExecContext(ctx, begin); err != nil {
			return &unwritten{err: err}
		}
		defer func() {
			if err != nil {
				s.abandon(ctx, conn)
			}
		}()
	}
	if m.lock != "" {
		release, err := s.lockSchema(ctx, conn)
		if err != nil {
			return err
		}
		defer release()
	}
	if err := s.takeSteps(ctx, conn, list); err != nil {
		return &unwritten{err: err}
	}
	if m.transactional {
		_, err := conn.ExecContext(ctx, "COMMIT")
		return err
	}
	return nil
}

// lockSchema waits until no other program is making the tables of this store.
func (s *Store) lockSchema(ctx context.Context, conn *dbsql.Conn) (release func(), err error) {
	m := s.dialect.migration
	key := s.lockKey()
	var got dbsql.NullString
	if err := conn.QueryRowContext(ctx, s.text(m.lock), key).Scan(&got); err != nil {
		return nil, err
	}
	if m.unlock == "" {
		return func() {}, nil // it ends with the transaction
	}
	if got.String != "1" {
		return nil, errors.New("another program has been making the tables for too long: look for one that hangs")
	}
	return func() {
		ctx, done := context.WithTimeout(context.WithoutCancel(ctx), farewell)
		defer done()
		if err := conn.QueryRowContext(ctx, m.unlock, key).Scan(&got); err != nil {
			s.abandon(ctx, conn)
		}
	}, nil
}

// lockKey stands for the tables of this store among the locks of the database: a number
// in PostgreSQL, a name in MySQL, where locks are the whole server's.
func (s *Store) lockKey() any {
	sum := sha256.Sum256([]byte("redis-stream-coordinator " + s.cfg.TablePrefix))
	if s.cfg.Dialect == Postgres {
		return int64(binary.BigEndian.Uint64(sum[:8]) >> 1)
	}
	return "rsc-" + hex.EncodeToString(sum[:16])
}

func (s *Store) takeSteps(ctx context.Context, conn *dbsql.Conn, list []step) error {
	create := "CREATE TABLE IF NOT EXISTS rsc_schema (version INTEGER NOT NULL PRIMARY KEY, applied_at VARCHAR(64) NOT NULL)"
	if _, err := conn.ExecContext(ctx, s.text(create)); err != nil {
		return err
	}
	version, err := s.schema(ctx, conn)
	if err != nil {
		return err
	}
	if err := refuseNewer(version, list[len(list)-1].version); err != nil {
		return err
	}
	for _, one := range list {
		if one.version <= version {
			continue
		}
		for _, statement := range one.statements {
			if _, err := conn.ExecContext(ctx, s.text(statement)); err != nil {
				return fmt.Errorf("version %d: %w", one.version, err)
			}
		}
		at := time.Now().UTC().Format(time.RFC3339)
		if _, err := conn.ExecContext(ctx, s.text("INSERT INTO rsc_schema (version, applied_at) VALUES (?, ?)"), one.version, at); err != nil {
			return fmt.Errorf("version %d: %w", one.version, err)
		}
		s.cfg.Logger.InfoContext(ctx, "tables were made in the database", "version", one.version, "prefix", s.cfg.TablePrefix)
	}
	return nil
}
