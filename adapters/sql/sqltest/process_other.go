//go:build !linux

package sqltest

import "syscall"

// bound has nothing to say here: a process that we start may outlive us.
func bound() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }

// children are not known here; a server notices itself that its first process is gone.
func children(int) []int { return nil }
