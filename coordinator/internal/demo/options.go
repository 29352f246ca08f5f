package demo

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// The commands of this program by which the demo starts its processes.
const (
	ConsumerCommand    = "demo-consumer"
	CoordinatorCommand = "demo-coordinator"
	RedisCommand       = "demo-redis"
)

// The defaults and bounds of Options.
const (
	DefaultSeconds = 20
	DefaultRate    = 2000

	minSeconds, maxSeconds = 1, 600
	// minRate lets every shard have records all the time, so that every move can
	// be measured.
	minRate, maxRate = 100, 20_000
)

// Options say how the demo runs. The zero value is a demo that writes nothing.
type Options struct {
	// Seconds is how long records are published, at least: what is to be shown is
	// shown to its end.
	//
	// Defaults to 20.
	Seconds int
	// Rate is how many records are published a second.
	//
	// Defaults to 2000.
	Rate int
	// RedisURL is the Redis to use, such as redis://127.0.0.1:6379. The demo uses
	// keys of its own there and removes them at its end.
	//
	// Defaults to a redis-server from PATH, started for the demo alone, or else
	// to one inside this process.
	RedisURL string
	// Embedded takes the Redis inside this process even where redis-server is
	// there.
	Embedded bool
	// SQLite keeps the metadata in a SQLite file, made for the demo alone, in place of
	// the Redis of the streams.
	SQLite bool
	// Out gets what happens. nil means nowhere.
	Out io.Writer
	// Size tells the size of the terminal that Out is, and is asked again and
	// again; it is nil where Out is none. On a terminal Out shows a moving
	// picture, elsewhere it gets lines.
	Size func() (columns, rows int)
	// Self is how this program is started again; a command is added to it.
	//
	// Defaults to the running executable.
	Self []string
	// Timings and Tick are what the coordinators work with.
	//
	// Default to a lease of 3 s, a heartbeat interval of 300 ms, a rebalance
	// timeout of 5 s and a tick of 100 ms.
	Timings protocol.Timings
	Tick    time.Duration

	// slack is how late things may be noticed on a machine that is busy, beyond what the
	// protocol takes. 0 means usualSlack.
	slack time.Duration
}

func (o Options) withDefaults() (Options, error) {
	if o.Seconds == 0 {
		o.Seconds = DefaultSeconds
	}
	if o.Rate == 0 {
		o.Rate = DefaultRate
	}
	if o.Out == nil {
		o.Out = io.Discard
	}
	if o.Timings == (protocol.Timings{}) {
		o.Timings = protocol.Timings{HeartbeatInterval: 300 * time.Millisecond, Lease: 3 * time.Second, RebalanceTimeout: 5 * time.Second}
	}
	if o.Tick == 0 {
		o.Tick = 100 * time.Millisecond
	}
	if o.slack == 0 {
		o.slack = usualSlack
	}
	if len(o.Self) == 0 {
		self, err := os.Executable()
		if err != nil {
			return o, fmt.Errorf("find this program, to start consumers with it: %w", err)
		}
		o.Self = []string{self}
	}
	err := o.validate()
	return o, err
}

func (o *Options) validate() error {
	var bad []error
	if o.Seconds < minSeconds || o.Seconds > maxSeconds {
		bad = append(bad, fmt.Errorf("seconds: is %d, must be between %d and %d", o.Seconds, minSeconds, maxSeconds))
	}
	if o.Rate < minRate || o.Rate > maxRate {
		bad = append(bad, fmt.Errorf("rate: is %d records a second, must be between %d and %d", o.Rate, minRate, maxRate))
	}
	if o.RedisURL != "" && o.Embedded {
		bad = append(bad, errors.New("embedded: a Redis URL is given too, use one of them"))
	}
	return errors.Join(bad...)
}

// metadata says where the metadata is: in the file, or as it is said otherwise.
func (o *Options) metadata(otherwise string) string {
	if o.SQLite {
		return "the coordinators keep their metadata in a SQLite file"
	}
	return otherwise
}

const usualSlack = 500 * time.Millisecond

// bounds are what the run must keep to.
func (o *Options) bounds() bounds {
	return bounds{
		// Whoever has not let go by then is fenced.
		handover:     o.Timings.RebalanceTimeout + o.Tick + o.slack,
		takeover:     o.Timings.Lease + o.Tick + o.Timings.HeartbeatInterval + o.slack,
		restartPause: o.slack,
	}
}

// work is how long a consumer takes for a record.
func (o *Options) work() time.Duration {
	if o.Rate > workRate {
		return 0
	}
	return work
}

func (o *Options) length() time.Duration { return time.Duration(o.Seconds) * time.Second }
