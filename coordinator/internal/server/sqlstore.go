package server

import (
	"context"
	dbsql "database/sql"
	"log/slog"

	"github.com/redis-stream-coordinator/rsc/adapters/sql"
	"github.com/redis-stream-coordinator/rsc/coordinator/internal/config"
	"github.com/redis-stream-coordinator/rsc/coordinator/internal/database"
	"github.com/redis-stream-coordinator/rsc/core/memstore"
)

// openSQL keeps the records in a database. The mutex is of this process: what makes
// writes safe is the database.
func (p *parts) openSQL(ctx context.Context, cfg *config.Coordinator, log *slog.Logger) error {
	settings := database.Settings{Driver: cfg.SQL.Driver, DSN: cfg.SQL.DSN.Reveal(), TablePrefix: cfg.SQL.TablePrefix, Logger: log}
	var store *sql.Store
	err := await(ctx, log, "coordinator.sql", database.Unavailable, func(ctx context.Context) (err error) {
		var pool *dbsql.DB
		store, pool, err = database.Open(ctx, settings)
		if err == nil {
			p.closers = append(p.closers, pool.Close)
		}
		return err
	})
	if err != nil {
		return err
	}
	p.ports.Store = store
	if signal := store.Signal(); signal != nil {
		p.ports.Signal = signal
	}
	if cfg.Audit.Sink == config.AuditSQL {
		p.audit = store.Audit(cfg.Audit.RedisMaxEntries)
	}
	if cfg.Coordination.StateMutex.Enabled {
		p.ports.Mutex = new(memstore.Mutex)
	}
	return nil
}
