//go:build unix

package bench

import (
	"syscall"
	"time"
)

// selfUse is what this process uses.
func selfUse() use {
	var r syscall.Rusage
	// It fails for a wrong argument only.
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r)
	return use{cpu: time.Duration(r.Utime.Nano() + r.Stime.Nano()), memory: residentMemory("self")}
}
