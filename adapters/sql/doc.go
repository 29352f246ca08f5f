// Package sql keeps the coordinator's records in a database: a port.Store on
// PostgreSQL, on MySQL or MariaDB, or in a SQLite file, by way of database/sql. It
// imports no driver; the program that opens the database brings one.
//
// # Tables
//
// rsc_ is Config.TablePrefix. All names, ids and bodies are kept as bytes, so those
// that differ in a byte differ here, too.
//
//	rsc_schema    the versions of the tables that were made
//	rsc_store     one row: the id of the store, and whether it was emptied
//	rsc_instance  one row: a part of the instance's name, see below
//	rsc_groups    one row for each group: aggregate, revision, nonce
//	rsc_lives     one row for each incarnation: stamp and report
//	rsc_streams   one row for each stream record
//	rsc_audit     one row for each attempt to change something, if the audit is here
//
// Open makes the tables and brings older ones up to date; several programs may do so
// at the same time. Tables of a newer program are refused with ErrSchema.
//
// # Instances
//
// A server that restarts or fails over may have lost what it confirmed last, so
// another instance answers then, and what is tied to the one before is refused. In
// PostgreSQL its name is the time of the server's start and the row of rsc_instance,
// an unlogged table, which a crash empties. In MySQL and MariaDB it is the server's
// id, host and port and the row of rsc_instance, which is in memory and gone after a
// restart. Whoever misses the row draws a new one. A SQLite file is one instance as
// long as it lives: there is no server, and a machine that goes down takes all
// coordinators on the file along.
//
// Servers that only read, such as replicas, are not used: they may be behind.
//
// # Writes
//
// A save or a deletion is one transaction that locks the row of its group first and
// compares instance, revision, nonce and stamps. A renewal is one statement on
// PostgreSQL and MySQL, which does the same. All writers of a group wait for its row,
// so none sees a stamp that another one is about to change. A writer that stands still
// in the middle is cut off by the server after a second (see the README for SQLite).
//
// Stamps and reports need not survive a crash, because the instance changes with it:
// on PostgreSQL their table is unlogged and their commits are not waited for, and
// SQLite does not wait for the disk. Records are always on the disk before a save is
// confirmed, if the database is set up so, which is the default of all.
//
// # Trouble
//
// What the database says it has not carried out, because of a deadlock or of another
// transaction, is tried again for as long as the call may take. A commit that was not
// answered is an error, and never sent again: the record tells, by its nonce, whether
// it took place.
package sql
