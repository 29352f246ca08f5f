package sql

import (
	"context"
	dbsql "database/sql"
	"errors"
)

// queryer is a pool of connections or one of them.
type queryer interface {
	QueryContext(ctx context.Context, text string, args ...any) (*dbsql.Rows, error)
	QueryRowContext(ctx context.Context, text string, args ...any) *dbsql.Row
}

// each calls do for each row that a query finds.
func each(ctx context.Context, from queryer, do func(scan func(...any) error) error, text string, args ...any) (err error) {
	rows, err := from.QueryContext(ctx, text, args...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		if err := do(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// texts returns what a query for two columns finds: the first leads to the second.
func texts(ctx context.Context, from queryer, text string, args ...any) (map[string]string, error) {
	found := map[string]string{}
	err := each(ctx, from, func(scan func(...any) error) error {
		var name, value []byte
		if err := scan(&name, &value); err != nil {
			return err
		}
		found[string(name)] = string(value)
		return nil
	}, text, args...)
	if err != nil {
		return nil, err
	}
	return found, nil
}
