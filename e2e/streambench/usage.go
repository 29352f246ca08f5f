package main

import (
	"runtime"
	"syscall"
	"time"
)

// usage is what this process has used up to a moment. The server is not in it,
// the coordinator in this process is.
type usage struct {
	at     time.Time
	cpu    time.Duration
	allocs uint64
}

// takeUsage stops the world for a moment.
func takeUsage() usage {
	var r syscall.Rusage
	// It fails for a wrong argument only.
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r)
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return usage{
		at:     time.Now(),
		cpu:    time.Duration(r.Utime.Nano() + r.Stime.Nano()),
		allocs: m.Mallocs,
	}
}

// cost is what one record took.
type cost struct {
	cpu    time.Duration
	allocs float64
}

// since returns the time from u to v, and what each of n records cost.
func (u usage) since(before usage, n int) (time.Duration, cost) {
	return u.at.Sub(before.at), cost{
		cpu:    (u.cpu - before.cpu) / time.Duration(n),
		allocs: float64(u.allocs-before.allocs) / float64(n),
	}
}
