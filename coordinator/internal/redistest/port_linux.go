package redistest

import (
	"os"
	"syscall"
	"testing"
)

// reservePort returns a port of the loopback interface that nobody else is given until
// the test ends: a socket is bound to it and never listens. Whoever wants this very port,
// as redis-server does, has it all the same, as often as it is started.
func reservePort(t testing.TB) int {
	t.Helper()
	must := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(os.NewSyscallError(what, err))
		}
	}
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	must("socket", err)
	t.Cleanup(func() { _ = syscall.Close(fd) })
	must("setsockopt", syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1))
	must("bind", syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	addr, err := syscall.Getsockname(fd)
	must("getsockname", err)
	at, ok := addr.(*syscall.SockaddrInet4)
	if !ok {
		t.Fatalf("no TCP address: %v", addr)
	}
	return at.Port
}
