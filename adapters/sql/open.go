package sql

import (
	"context"
	dbsql "database/sql"
	"fmt"

	"github.com/redis-stream-coordinator/rsc/core/port"
)

// Store is a port.Store in a database; use Open. It is safe for concurrent use, also
// by many processes.
type Store struct {
	cfg     Config
	db      *dbsql.DB
	dialect dialect
	sql     statements
	maxBody int
	// writing has room for one: who puts something in may write, where there is one
	// writer at a time. Waiting in line is faster than asking the file for its lock.
	writing chan struct{}
}

var _ port.Store = (*Store)(nil)

// Open makes the tables of a store where they are missing, brings older ones up to
// date, and returns the store. There is nothing to close but Config.DB.
// Errors: whatever is wrong with the configuration; ErrSchema for the tables of a newer
// program; else the database's.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("sql store: %w", err)
	}
	s := &Store{cfg: cfg, db: cfg.DB, dialect: dialectOf(cfg.Dialect), maxBody: MaxBodyBytes, writing: make(chan struct{}, 1)}
	s.sql = s.newStatements()
	if err := s.migrate(ctx); err != nil {
		return nil, fmt.Errorf("open the metadata store: %w", err)
	}
	if s.dialect.maxBody != nil {
		most, err := s.dialect.maxBody(ctx, s)
		if err != nil {
			return nil, fmt.Errorf("open the metadata store: %w", err)
		}
		s.maxBody = min(s.maxBody, most)
	}
	if s.maxBody < MaxBodyBytes {
		cfg.Logger.WarnContext(ctx, "the database takes smaller records than a large group needs: raise its largest packet", "bytes", s.maxBody, "needed", MaxBodyBytes)
	}
	if _, err := s.Ping(ctx); err != nil {
		return nil, fmt.Errorf("open the metadata store: %w", err)
	}
	return s, nil
}
