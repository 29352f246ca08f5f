package bench

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// use is what a process has used up to a moment, and the memory that it has.
type use struct {
	cpu    time.Duration
	memory int64
}

// snapshot is everything that is counted, at one moment.
type snapshot struct {
	store  counters
	self   use
	others []use
}

// clockTick is the unit of times in /proc, on every Linux that Go runs on.
const clockTick = 10 * time.Millisecond

// processUse reads what a process of this machine has used. Linux only.
func processUse(pid int) (use, error) {
	u := use{memory: residentMemory(strconv.Itoa(pid))}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return u, fmt.Errorf("what process %d uses cannot be read (it must run on this machine, and that must be Linux): %w", pid, err)
	}
	// The name in brackets may hold anything, also blanks and brackets.
	const user, system, needed = 11, 12, 13
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(fields) < needed {
		return u, fmt.Errorf("what process %d uses cannot be read: %.80q", pid, stat)
	}
	for _, field := range []string{fields[user], fields[system]} {
		ticks, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return u, fmt.Errorf("what process %d uses cannot be read: %w", pid, err)
		}
		u.cpu += time.Duration(ticks) * clockTick
	}
	return u, nil
}

// residentMemory is the memory of a process in bytes, 0 where the system does not
// say.
func residentMemory(process string) int64 {
	status, err := os.ReadFile("/proc/" + process + "/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kb, _ := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")), 10, 64)
			return kb << 10
		}
	}
	return 0
}
