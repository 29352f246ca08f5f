//go:build unix

package demo

import (
	"os/exec"
	"syscall"
)

// detach keeps what is typed at the terminal from the child: an interrupt is for
// the demo, which ends its processes in order.
func detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// terminate asks the child to end.
func terminate(c *child) error { return c.cmd.Process.Signal(syscall.SIGTERM) }
