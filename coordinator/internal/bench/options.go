package bench

import (
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// The defaults of a run.
const (
	DefaultMembers     = 1000
	DefaultGroups      = 1
	DefaultShards      = 4096
	DefaultConnections = 128
	DefaultDuration    = 10 * time.Second
)

const (
	maxDuration = 24 * time.Hour
	// maxConnections is about how many one process may have by default.
	maxConnections = 8000
	// maxWaiting bounds the members of the consumer module in this process: each has a
	// connection and a few goroutines.
	maxWaiting = 8000
)

// Options say what is measured. The zero value of a number means the default.
type Options struct {
	// Coordinators are base URLs. Groups are spread over them.
	Coordinators []string
	// Embedded takes a coordinator in this process in place of Coordinators.
	Embedded bool
	// Username and Password are for the coordinators; with Embedded they are not used.
	Username, Password string
	// Members, Groups and Shards make up the load: so many groups, each with so many
	// members, on one stream with so many shards.
	Members, Groups, Shards int
	// Connections is over how many connections keepalives are sent.
	Connections int
	// Duration is how long it is measured.
	Duration time.Duration
	// Wait is how long the members ask for their heartbeats to be held. 0 means
	// keepalives, as fast as they are answered.
	Wait time.Duration
	// Redis says where the coordinator's metadata lie, to read the counters there;
	// with Embedded they are put there. nil means no Redis: no counters, and memory.
	Redis *redis.UniversalOptions
	// PIDs are processes of coordinators on this machine whose use of processor and
	// memory is to be shown.
	PIDs []int
	// Progress is told what is going on, one line at a time; nil for nobody.
	Progress func(line string)
}

func (o Options) withDefaults() Options {
	orDefault := func(v *int, fallback int) {
		if *v == 0 {
			*v = fallback
		}
	}
	orDefault(&o.Members, DefaultMembers)
	orDefault(&o.Groups, DefaultGroups)
	orDefault(&o.Shards, DefaultShards)
	orDefault(&o.Connections, DefaultConnections)
	if o.Duration == 0 {
		o.Duration = DefaultDuration
	}
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	return o
}

// Check returns all that is wrong with o.
func (o Options) Check() error {
	o = o.withDefaults()
	var bad []error
	within := func(what string, value, low, high int) {
		if value < low || value > high {
			bad = append(bad, fmt.Errorf("%s must be between %d and %d, got %d", what, low, high, value))
		}
	}
	within("members", o.Members, 1, protocol.MaxMembers)
	within("groups", o.Groups, 1, protocol.MaxGroups)
	within("shards", o.Shards, 1, protocol.MaxShards)
	within("connections", o.Connections, 1, maxConnections)
	if o.Wait > 0 && o.Members*o.Groups > maxWaiting {
		bad = append(bad, fmt.Errorf("members that wait need a connection each, at most %d in all, got %d", maxWaiting, o.Members*o.Groups))
	}
	if o.Duration < 100*time.Millisecond || o.Duration > maxDuration {
		bad = append(bad, fmt.Errorf("duration must be between 100ms and %s, got %s", maxDuration, o.Duration))
	}
	if o.Wait < 0 {
		bad = append(bad, fmt.Errorf("wait must not be negative, got %s", o.Wait))
	}
	if !o.Embedded && len(o.Coordinators) == 0 {
		bad = append(bad, errors.New("a coordinator is needed, or one in this process"))
	}
	return errors.Join(bad...)
}
