package sql

import (
	dbsql "database/sql"
	"errors"
)

// each returns a function that takes what a query returned, and calls do for each row.
func each(do func(scan func(...any) error) error) func(rows *dbsql.Rows, err error) error {
	return func(rows *dbsql.Rows, err error) (failure error) {
		if err != nil {
			return err
		}
		defer func() { failure = errors.Join(failure, rows.Close()) }()
		for rows.Next() {
			if err := do(rows.Scan); err != nil {
				return err
			}
		}
		return rows.Err()
	}
}

// texts takes what a query for two columns returned: the first leads to the second.
func texts(rows *dbsql.Rows, err error) (map[string]string, error) {
	found := map[string]string{}
	err = each(func(scan func(...any) error) error {
		var name, value []byte
		if err := scan(&name, &value); err != nil {
			return err
		}
		found[string(name)] = string(value)
		return nil
	})(rows, err)
	if err != nil {
		return nil, err
	}
	return found, nil
}
