package main

import (
	"syscall"
	"time"
)

// usage is what this process has used up to a moment.
type usage struct {
	at  time.Time
	cpu time.Duration
}

func takeUsage() usage {
	var r syscall.Rusage
	// It fails for a wrong argument only.
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r)
	return usage{at: time.Now(), cpu: time.Duration(r.Utime.Nano() + r.Stime.Nano())}
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func microseconds(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
