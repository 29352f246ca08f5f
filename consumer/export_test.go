package consumer

import "time"

// Unhurried makes a config whose short waits last: on a machine that stands still for
// a while nothing is given up that a test counts on. It is not for what ends by such a
// wait, as handlers do that never return and servers that are silent.
func Unhurried(cfg Config) Config {
	const long = time.Minute
	cfg.limits = limits{probe: long, link: long, giveBack: long, finalAck: long, lateAck: 10 * time.Second, stuck: long}
	return cfg
}

// MissingFor sets how long a stream may be missing before that counts as trouble.
func MissingFor(cfg Config, d time.Duration) Config {
	cfg.limits.missing = d
	return cfg
}
