package command

import (
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// replicas is how many replicas must have a write before it counts; the zero
// value asks for none.
type replicas struct {
	count   int
	timeout time.Duration
}

// errFewReplicas: it was carried out, and may be lost in a failover.
var errFewReplicas = errors.New("too few replicas have it, so that it may be lost")

// judge reads the answer to WAIT, which followed a write on its connection. No
// error of it wraps an answer of the server: the write was carried out.
func (r replicas) judge(wait *redis.Cmd) error {
	n, err := wait.Int()
	switch {
	case err != nil:
		return fmt.Errorf("%w: WAIT: %v", errFewReplicas, err) //nolint:errorlint // see above
	case n < r.count:
		return fmt.Errorf("%w: %d of %d after %s", errFewReplicas, n, r.count, r.timeout)
	}
	return nil
}
