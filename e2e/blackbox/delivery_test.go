package blackbox

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/e2e/faultkit"
)

// A file of 100,000 lines goes through eight shards and three consumers, one of
// which is killed midway. Every line comes out, and the lines of each key in
// their order.
func TestEveryLineComesOutThoughAConsumerIsKilled(t *testing.T) {
	const (
		keys, perKey = 1000, 100
		shards       = 8
		limit        = 2 * time.Minute
	)
	redis := startRedis(t, faultkit.Options{})
	c := startCoordinator(t, "--redis", redis.url)
	c.CreateStream(stream, shards)
	k := tools{t: t, coordinators: []string{c.URL}, redis: redis}
	file := filepath.Join(t.TempDir(), "orders.ndjson")
	lines := writeLines(t, file, keys, perKey)
	began := time.Now()

	j := newJournal(t)
	killed, others := k.consume("killed", j), []*faultkit.Process{k.consume("first", j), k.consume("second", j)}
	faultkit.Eventually(t, limit, "each consumer holds shards", func() bool {
		members, held := c.holders()
		return members == 3 && held == shards
	})
	// The second half comes after the kill, however quick all of it is.
	input, rest := inHalves(t, file)
	produce := k.produce(input)

	faultkit.Eventually(t, limit, "a fifth of the lines came out", func() bool { return j.count() > len(lines)/5 })
	killed.Kill()
	atKill, killedAt := j.count(), time.Now()
	rest()

	if code := produce.Wait(limit); code != 0 {
		t.Fatalf("rsc produce exited with %d", code)
	}
	stored := redis.stored(shards)
	faultkit.Eventually(t, limit, "all lines came out", func() bool { return j.take() == len(lines) })
	took, tookOver := time.Since(began), time.Since(killedAt)
	faultkit.Eventually(t, startTimeout, "everything is acknowledged", func() bool { return redis.unacknowledged(shards) == 0 })
	for _, other := range others {
		other.Stop(startTimeout)
		other.ExpectLog("consume: member=")
	}
	j.take()

	j.expectOrder()
	lost := j.expectAll(lines)
	for payload, times := range stored {
		if times != 1 || lines[payload] != 1 {
			t.Errorf("stored %d times: %s", times, payload)
		}
	}
	if len(stored) != len(lines) {
		t.Errorf("%d of %d lines are stored", len(stored), len(lines))
	}
	t.Logf("lines=%d stored=%d printed=%d duplicates=%d lost=%d out_of_order=%d", len(lines), len(stored), j.lines, j.duplicates(), lost, len(j.disorder))
	t.Logf("at the kill %d lines were out; the last line came %s after it, %s after the start", atKill, tookOver.Round(time.Millisecond), took.Round(time.Millisecond))
	t.Log("counted: the lines of the file as they were written; XRANGE over all shards; the lines that all consumers appended to one file, " +
		"by payload; the order of a key is that of its lines' first occurrences in that file; at the end XINFO GROUPS says pending 0 and lag 0")
	if took > limit {
		t.Errorf("it took %s, must be under %s", took, limit)
	}
}

// inHalves returns an input that gives the first half of a file, and the second once rest
// was called.
func inHalves(t *testing.T, path string) (input *os.File, rest func()) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	halfway, written := make(chan struct{}), make(chan struct{})
	rest = sync.OnceFunc(func() { close(halfway) })
	go func() {
		defer close(written)
		defer func() { _ = in.Close() }()
		half := len(text) / 2
		if _, err := in.Write(text[:half]); err != nil {
			return // nobody reads any more, which an exit code tells
		}
		<-halfway
		_, _ = in.Write(text[half:]) // as above
	}()
	t.Cleanup(func() {
		rest()
		_ = out.Close()
		<-written
	})
	return out, rest
}
