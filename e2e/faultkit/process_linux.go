package faultkit

import "syscall"

// bound makes a process end with us, however we end. The kernel counts by the
// thread that started the process; the Go runtime ends a thread only when a
// goroutine that is locked to it ends, and no goroutine here is.
func bound() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
