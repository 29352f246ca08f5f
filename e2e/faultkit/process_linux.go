package faultkit

import (
	"bytes"
	"fmt"
	"os"
	"syscall"
)

// bound makes a process end with us, however we end. The kernel counts by the
// thread that started the process; the Go runtime ends a thread only when a
// goroutine that is locked to it ends, and no goroutine here is.
func bound() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// stopped reports whether all threads of a process have been stopped by a signal.
func stopped(pid int) bool {
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return false
	}
	for _, task := range tasks {
		// The state follows the name, which stands in brackets and may hold any character.
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/stat", pid, task.Name()))
		end := bytes.LastIndexByte(stat, ')')
		if err != nil || end < 0 || !bytes.HasPrefix(stat[end+1:], []byte(" T")) {
			return false
		}
	}
	return len(tasks) > 0
}
