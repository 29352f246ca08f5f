//go:build unix

package cli

import (
	"os/exec"
	"syscall"
)

// inGroupOfItsOwn keeps the terminal's SIGINT from the command, which is to
// finish its record, and makes the end of the context reach all of its children.
func inGroupOfItsOwn(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGTERM) }
}

// killGroup ends children of a command that did not end when they were told to.
func killGroup(c *exec.Cmd) {
	if c.Process != nil {
		_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL) // mostly there is nobody left
	}
}
