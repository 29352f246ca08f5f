//go:build !linux

package faultkit

import "syscall"

// bound does nothing here: only Linux can bind a process to the life of another.
func bound() *syscall.SysProcAttr { return nil }

// stopped takes it that a signal arrives at once: only Linux can be asked in a simple way.
func stopped(int) bool { return true }
