package redistest

import (
	"fmt"
	"net"
	"runtime"
	"testing"
)

// A port that is reserved can be listened on again and again, and nobody is given it by
// chance in between.
func TestReservedPort(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("SKIPPED: ports are reserved on Linux only, so NOTHING HERE WAS TESTED")
	}
	port := reservePort(t)
	for range 3 {
		l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			t.Fatal(err)
		}
		c, err := new(net.Dialer).DialContext(t.Context(), "tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if c, err := new(net.Dialer).DialContext(t.Context(), "tcp", l.Addr().String()); err == nil {
			_ = c.Close()
			t.Error("somebody listens on a port that is only reserved")
		}
	}
	for range 200 {
		if other := reservePort(t); other == port {
			t.Fatal("the port was given to another")
		}
	}
}
