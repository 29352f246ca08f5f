//go:build !unix

package demo

import (
	"io"
	"os/exec"
)

func detach(*exec.Cmd) {}

// terminate asks the child to end, by its input: there is no signal for it here.
func terminate(c *child) error {
	_, err := io.WriteString(c.stdin, leaveOrder+"\n")
	return err
}
