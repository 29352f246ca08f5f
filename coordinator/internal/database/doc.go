// Package database opens the databases that records can be kept in: it brings the
// drivers to what adapters/sql knows.
package database
