package cli

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis-stream-coordinator/rsc/consumer"
)

// killDelay is how long a command has to end after it was told to, before it is
// killed.
const killDelay = 3 * time.Second

// runner returns a handler that runs a shell command for each record.
func (a App) runner(command string) consumer.Handler {
	return func(ctx context.Context, r consumer.Record) error {
		input, err := encodeRecord(r)
		if err != nil {
			return err
		}
		c := exec.CommandContext(ctx, "/bin/sh", "-c", command)
		c.Stdin = bytes.NewReader(input)
		c.Stdout, c.Stderr = a.Stdout, a.Stderr
		c.Env = append(slices.Clone(a.Environ),
			"RSC_STREAM="+r.Stream,
			"RSC_SHARD="+strconv.Itoa(r.Shard),
			"RSC_ID="+r.ID,
			"RSC_TOKEN="+strconv.FormatInt(r.Token, 10),
			"RSC_DELIVERIES="+strconv.Itoa(r.Deliveries),
		)
		if !strings.ContainsRune(r.Key, 0) { // an environment cannot hold it
			c.Env = append(c.Env, "RSC_KEY="+r.Key)
		}
		inGroupOfItsOwn(c)
		c.WaitDelay = killDelay
		err = c.Run()
		if ctx.Err() != nil {
			killGroup(c)
		}
		if err != nil {
			return fmt.Errorf("command for record %s of shard %d: %w", r.ID, r.Shard, err)
		}
		return nil
	}
}
