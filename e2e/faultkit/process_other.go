//go:build !linux

package faultkit

import "syscall"

// bound does nothing here: only Linux can bind a process to the life of another.
func bound() *syscall.SysProcAttr { return nil }
