package faultkit

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Kind is a kind of server.
type Kind struct {
	// Name is how tables and subtests call it.
	Name string
	// Clustered says that it is a Redis Cluster.
	Clustered bool

	// program is found in PATH, or in a folder of that name among the fetched
	// servers.
	program string
	fetched bool
}

// The kinds there are. Redis7 is the installed package; Redis8 and Valkey9 are
// what scripts/fetch-servers.sh fetched.
var (
	Redis7  = Kind{Name: "redis-7.0", program: "redis-server"}
	Redis8  = Kind{Name: "redis-8.0", program: "redis-8.0", fetched: true}
	Valkey9 = Kind{Name: "valkey-9", program: "valkey-9", fetched: true}
	Cluster = Kind{Name: "cluster-7.0", program: "redis-server", Clustered: true}
)

// Kinds lists all of them.
func Kinds() []Kind { return []Kind{Redis7, Redis8, Valkey9, Cluster} }

// Standalone lists those that are one server.
func Standalone() []Kind { return []Kind{Redis7, Redis8, Valkey9} }

// Need skips the test where the server is missing, loudly; in CI it fails it.
func (k Kind) Need(tb testing.TB) {
	tb.Helper()
	if _, err := k.path(); err != nil {
		missing(tb, fmt.Errorf("%s: %w", k.Name, err))
	}
}

// path returns the program that starts the server.
func (k Kind) path() (string, error) {
	if !k.fetched {
		path, err := exec.LookPath(k.program)
		if err != nil {
			return "", notInstalled(k.program)
		}
		return path, nil
	}
	folder := os.Getenv("RSC_SERVERS")
	if folder == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("no folder with fetched servers: set RSC_SERVERS: %w", err)
		}
		folder = filepath.Join(cache, "rsc-servers")
	}
	path := filepath.Join(folder, k.program, "server")
	if _, err := os.Stat(path); err != nil {
		return "", errors.New("the server has not been fetched: run scripts/fetch-servers.sh")
	}
	return path, nil
}
