package faultkit

import (
	"context"
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
)

const (
	// firstPort and lastPort bound the ports of servers. The system gives higher ones to
	// whoever asks for any, so that a server that was killed would find its own taken.
	firstPort, lastPort = 15_000, 32_000
	// addrAttempts bounds the search for a free port.
	addrAttempts = 1_000
)

// FreeAddr is an address of 127.0.0.1 on which nothing listens, for a server that may be
// killed and started again: until the test ends no other caller gets it, in no process.
func FreeAddr(tb testing.TB) string {
	tb.Helper()
	for range addrAttempts {
		addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(firstPort+rand.IntN(lastPort-firstPort)))
		if reserve(tb, addr) {
			return addr
		}
	}
	tb.Fatalf("no port between %d and %d is free", firstPort, lastPort)
	return ""
}

// reserve takes an address, unless it is taken. Its UDP port is what is held: servers use
// the TCP port alone, which nobody may hold in their place.
func reserve(tb testing.TB, addr string) bool {
	tb.Helper()
	mark, err := new(net.ListenConfig).ListenPacket(context.Background(), "udp", addr)
	if err != nil {
		return false
	}
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", addr)
	if err != nil {
		_ = mark.Close()
		return false
	}
	_ = l.Close()
	tb.Cleanup(func() { _ = mark.Close() })
	return true
}

func port(tb testing.TB, addr string) int {
	tb.Helper()
	_, text, err := net.SplitHostPort(addr)
	if err != nil {
		tb.Fatal(err)
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		tb.Fatal(err)
	}
	return n
}
