package database

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

// goodbyeTimeout bounds the end of a connection.
const goodbyeTimeout = time.Second

// errPostgres does not quote what it is about: it may hold a password.
var errPostgres = errors.New("the DSN cannot be read: it must be like postgres://user:password@host:5432/database, or host=… user=… dbname=…")

func openPostgres(dsn string) (opened, error) {
	c, err := pgx.ParseConfig(dsn)
	if err != nil {
		return opened{}, errPostgres
	}
	if c.ConnectTimeout == 0 {
		c.ConnectTimeout = dialTimeout
	}
	if c.RuntimeParams["application_name"] == "" {
		c.RuntimeParams["application_name"] = "rsc"
	}
	pool := stdlib.OpenDB(*c)
	pool.SetMaxOpenConns(maxConnections)
	pool.SetMaxIdleConns(maxIdle)
	pool.SetConnMaxIdleTime(maxIdleTime)
	return opened{pool: pool, listen: listener(c)}, nil
}

// listener listens on a connection of its own, see sql.Config.
func listener(c *pgx.ConnConfig) func(context.Context, string, func(), func(string)) error {
	return func(ctx context.Context, channel string, begun func(), heard func(payload string)) error {
		conn, err := pgx.ConnectConfig(ctx, c.Copy())
		if err != nil {
			return err
		}
		defer func() {
			ctx, done := context.WithTimeout(context.WithoutCancel(ctx), goodbyeTimeout)
			defer done()
			_ = conn.Close(ctx) // it is of no use any more
		}()
		if _, err := conn.Exec(ctx, "LISTEN "+pgx.Identifier{channel}.Sanitize()); err != nil {
			return err
		}
		begun()
		for {
			n, err := conn.WaitForNotification(ctx)
			if err != nil {
				return err
			}
			heard(n.Payload)
		}
	}
}
