//go:build !linux

package redistest

import (
	"net"
	"testing"
)

// reservePort returns a port that nothing listened on a moment ago.
func reservePort(t testing.TB) int {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	addr, ok := l.Addr().(*net.TCPAddr)
	if !ok {
		t.Fatalf("no TCP address: %v", l.Addr())
	}
	return addr.Port
}
