//go:build !unix

package cli

import "os/exec"

// inGroupOfItsOwn does nothing where there are no process groups: the command is
// killed when its context ends.
func inGroupOfItsOwn(*exec.Cmd) {}

func killGroup(*exec.Cmd) {}
