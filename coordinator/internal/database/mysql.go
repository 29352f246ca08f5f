package database

import (
	dbsql "database/sql"
	"errors"
	"net"
	"net/url"
	"strings"

	mysqldriver "github.com/go-sql-driver/mysql"
)

// errMySQL does not quote what it is about: it may hold a password.
var errMySQL = errors.New("the DSN cannot be read: it must be like mysql://user:password@host:3306/database, or user:password@tcp(host:3306)/database")

func openMySQL(dsn string) (opened, error) {
	native, err := nativeMySQL(dsn)
	if err != nil {
		return opened{}, err
	}
	c, err := mysqldriver.ParseDSN(native)
	if err != nil || c.DBName == "" {
		return opened{}, errMySQL
	}
	// A statement is one round trip then, and a row that is written the same again
	// counts for nothing, which the adapter expects.
	c.InterpolateParams, c.ClientFoundRows = true, false
	c.Logger = &mysqldriver.NopLogger{} // what it would log is in the errors
	if c.Timeout == 0 {
		c.Timeout = dialTimeout
	}
	connector, err := mysqldriver.NewConnector(c)
	if err != nil {
		return opened{}, errMySQL
	}
	pool := dbsql.OpenDB(connector)
	pool.SetMaxOpenConns(maxConnections)
	pool.SetMaxIdleConns(maxIdle)
	pool.SetConnMaxIdleTime(maxIdleTime)
	return opened{pool: pool}, nil
}

// nativeMySQL makes the driver's own form of a URL, and leaves any other text alone.
func nativeMySQL(dsn string) (string, error) {
	if !strings.Contains(dsn, "://") {
		return dsn, nil
	}
	u, err := url.Parse(dsn)
	if err != nil || u.Host == "" {
		return "", errMySQL
	}
	c := mysqldriver.NewConfig()
	c.Net, c.Addr, c.DBName = "tcp", u.Host, strings.TrimPrefix(u.Path, "/")
	if u.Port() == "" {
		c.Addr = net.JoinHostPort(u.Hostname(), "3306")
	}
	if u.User != nil {
		c.User = u.User.Username()
		c.Passwd, _ = u.User.Password()
	}
	native := c.FormatDSN()
	if u.RawQuery == "" {
		return native, nil
	}
	if strings.Contains(native, "?") {
		return native + "&" + u.RawQuery, nil
	}
	return native + "?" + u.RawQuery, nil
}
