package sqltest

import (
	"path/filepath"
	"syscall"
)

// Kind is a kind of server.
type Kind string

// The kinds of servers.
const (
	Postgres Kind = "PostgreSQL"
	MariaDB  Kind = "MariaDB"
)

// program is how a kind of server is made and run.
type program struct {
	// user is whom to run as where we are root.
	user string
	// binaries are found in these folders, or in PATH.
	folders []string
	needs   []string
	// create makes the data of a new server, run starts it, and ping asks whether it
	// answers.
	create, run, ping func(bin func(string) string, dir, port string) []string
	// address is the data source name of a database on an address.
	address func(addr string) string
	// stop is the signal that asks for an orderly end.
	stop syscall.Signal
}

// programs are the kinds of servers that there are. A server writes to its folder as
// fast as the disk allows, and does not wait for it where only its creation is lost.
var programs = map[Kind]program{
	Postgres: {
		user: "postgres", folders: []string{"/usr/lib/postgresql/*/bin"}, needs: []string{"postgres", "initdb", "pg_isready"},
		create: func(bin func(string) string, dir, _ string) []string {
			return []string{bin("initdb"), "-D", filepath.Join(dir, "data"), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"}
		},
		run: func(bin func(string) string, dir, port string) []string {
			return []string{
				bin("postgres"), "-D", filepath.Join(dir, "data"), "-p", port,
				"-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=" + dir, "-c", "max_connections=200",
			}
		},
		ping: func(bin func(string) string, _, port string) []string {
			return []string{bin("pg_isready"), "-q", "-h", "127.0.0.1", "-p", port, "-U", "postgres", "-d", "postgres"}
		},
		address: func(addr string) string { return "postgres://postgres@" + addr + "/postgres?sslmode=disable" },
		stop:    syscall.SIGINT, // without waiting for clients
	},
	MariaDB: {
		user: "mysql", folders: []string{"/usr/sbin", "/usr/bin"}, needs: []string{"mariadbd", "mariadb-install-db", "mariadb-admin"},
		create: func(bin func(string) string, dir, _ string) []string {
			return []string{
				bin("mariadb-install-db"), "--no-defaults", "--datadir=" + filepath.Join(dir, "data"),
				"--auth-root-authentication-method=normal",
			}
		},
		run: func(bin func(string) string, dir, port string) []string {
			return []string{
				bin("mariadbd"), "--no-defaults", "--datadir=" + filepath.Join(dir, "data"), "--port=" + port, "--bind-address=127.0.0.1",
				"--socket=" + filepath.Join(dir, "sock"), "--pid-file=" + filepath.Join(dir, "pid"), "--skip-log-bin", "--skip-name-resolve",
			}
		},
		ping: func(bin func(string) string, _, port string) []string {
			return []string{bin("mariadb-admin"), "--no-defaults", "-h127.0.0.1", "-P" + port, "-uroot", "--connect-timeout=5", "ping"}
		},
		address: func(addr string) string { return "mysql://root@" + addr + "/test" },
		stop:    syscall.SIGTERM,
	},
}
