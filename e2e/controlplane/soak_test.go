package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/adapters/http/httpload"
	"github.com/redis-stream-coordinator/rsc/e2e/faultkit"
	"github.com/redis-stream-coordinator/rsc/e2e/rsctest"
)

const (
	// The load of the soak: as many keepalives as come through.
	soakMembers     = 1_000
	soakShards      = 4_000
	soakConnections = 64
	settleAtOnce    = 64
	// soakShort is how long the short form lasts, soakSamples how often is measured.
	soakShort   = 6 * time.Second
	soakSamples = 120
	// soakGrowth is by how much the memory may grow over the second half, by its trend:
	// a part of it and some for the noise of a collector.
	soakGrowth, soakNoise = 0.05, 6 << 20
	// soakGoroutines is how many more there may be in the end than after a short load.
	soakGoroutines = 8
)

// sample is what a process has of what could leak.
type sample struct {
	at                           time.Duration
	resident, threads, openFiles int
}

// TestSoak: a coordinator under full load for RSC_MINUTES. Its memory, threads and open
// files stay as they are, and in the end there are as many goroutines as after a load of
// a few seconds.
func TestSoak(t *testing.T) {
	asked(t)
	if runtime.GOOS != "linux" {
		t.Skip("SKIPPED: reads /proc, so NOTHING HERE WAS TESTED")
	}
	rsctest.Program(t) // the tests' own times are not for building
	length := soakShort
	if long() {
		length = minutes(t, 10)
	}
	_, _, few := soak(t, soakShort/3)
	samples, load, many := soak(t, length)

	half := samples[len(samples)/2:]
	growth := trend(half, func(s sample) int { return s.resident })
	bound := int(soakGrowth*float64(half[0].resident)) + soakNoise
	if growth > bound {
		t.Errorf("the memory grew by %d KiB over the second half, of %d KiB: must be under %d KiB", growth>>10, half[0].resident>>10, bound>>10)
	}
	files := func(s sample) int { return s.openFiles }
	if grown := trend(half, files); grown > soakGoroutines {
		t.Errorf("there were %d more open files at the end of the second half", grown)
	}
	if many > few+soakGoroutines {
		t.Errorf("%d goroutines were there in the end, after a short load %d", many, few)
	}
	if load.Failed > 0 {
		t.Errorf("%d keepalives failed: %q", load.Failed, load.Complaints)
	}
	last := half[len(half)-1]
	t.Logf("soak: took=%s keepalives=%d per_second=%.0f p99=%s resident_mb_half=%.1f resident_mb_end=%.1f growth_kb=%d threads=%d..%d open_files=%d..%d goroutines_after=%d (after a short load %d)",
		length, load.OK, load.PerSecond(), load.Latency.Quantile(0.99), float64(half[0].resident)/(1<<20), float64(last.resident)/(1<<20), growth>>10,
		half[0].threads, last.threads, half[0].openFiles, last.openFiles, many, few)
}

// soak loads a coordinator of its own for a while, and returns what was measured and
// how many goroutines are left after it.
func soak(t *testing.T, length time.Duration) ([]sample, *httpload.Result, int) {
	t.Helper()
	server := faultkit.Redis7.Start(t, faultkit.Options{})
	c := startCoordinator(t, "one", "--redis", "redis://"+server.Addrs()[0])
	c.CreateStream(stream, soakShards)
	target, err := httpload.NewTarget(c.URL, "admin", "password")
	if err != nil {
		t.Fatal(err)
	}
	others := c.connections(t)
	beat := httpload.NewHTTPBeat(target, stream, group, startTimeout)
	fleet := httpload.NewFleet("member-", soakMembers)
	if err := fleet.Settle(t.Context(), soakShards, settleAtOnce, beat.Beat); err != nil {
		t.Fatal(err)
	}
	beat.Close()
	gun, err := httpload.NewGun(target, stream, group, fleet.Requests(), startTimeout)
	if err != nil {
		t.Fatal(err)
	}
	ctx, done := context.WithCancel(t.Context())
	defer done()
	fired := make(chan *httpload.Result, 1)
	go func() {
		load, err := gun.Fire(ctx, soakConnections)
		if err != nil {
			t.Error(err)
			load = new(httpload.Result)
		}
		fired <- load
	}()
	var samples []sample
	every := time.NewTicker(length / soakSamples)
	defer every.Stop()
	began := time.Now()
	// Where the machine stands still there are fewer.
	for time.Since(began) < length || len(samples) < soakSamples/4 {
		samples = append(samples, take(t, c.Proc.PID(), time.Since(began)))
		<-every.C
	}
	done()
	load := <-fired
	// Each of its connections has goroutines of its own until the coordinator has seen
	// it close.
	faultkit.Eventually(t, startTimeout, "the connections of the load are closed", func() bool {
		return c.connections(t) <= others
	})
	return samples, load, c.goroutines()
}

// connections counts those to the coordinator's port that it has not closed.
func (c *coordinator) connections(t *testing.T) (n int) {
	t.Helper()
	_, port, err := net.SplitHostPort(strings.TrimPrefix(c.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		t.Fatal(err)
	}
	local := fmt.Sprintf(":%04X", number)
	const established, closeWait = "01", "08"
	for _, table := range []string{"tcp", "tcp6"} {
		lines, err := os.ReadFile(filepath.Join(proc(c.Proc.PID()), "net", table))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(lines)) {
			// The number of the line, here, there, the state.
			f := strings.Fields(line)
			if len(f) > 3 && strings.HasSuffix(f[1], local) && (f[3] == established || f[3] == closeWait) {
				n++
			}
		}
	}
	return n
}

// take reads what the system knows of a process.
func take(t *testing.T, pid int, at time.Duration) sample {
	t.Helper()
	dir := proc(pid)
	status, err := os.ReadFile(filepath.Join(dir, "status"))
	if err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(filepath.Join(dir, "fd"))
	if err != nil {
		t.Fatal(err)
	}
	s := sample{at: at, openFiles: len(files)}
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		switch name {
		case "VmRSS":
			_, err = fmt.Sscan(value, &s.resident)
			s.resident <<= 10
		case "Threads":
			_, err = fmt.Sscan(value, &s.threads)
		}
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
	}
	return s
}

// proc is where the system tells of a process.
func proc(pid int) string { return "/proc/" + strconv.Itoa(pid) }

// trend returns by how much something grew over all samples, by the median of the
// slopes between their first and their second half.
func trend(samples []sample, of func(sample) int) int {
	var slopes []float64
	middle := len(samples) / 2
	for i := range middle {
		a, b := samples[i], samples[i+middle]
		slopes = append(slopes, float64(of(b)-of(a))/float64(b.at-a.at))
	}
	slices.Sort(slopes)
	length := samples[len(samples)-1].at - samples[0].at
	return int(slopes[len(slopes)/2] * float64(length))
}

var goroutineLine = regexp.MustCompile(`(?m)^goroutine \d+ (gp=\S+ m=\S+ (mp=\S+ )?)?\[`)

// goroutines ends the coordinator with the signal on which a program of Go lists its
// goroutines, and counts them. Connections have ended before.
func (c *coordinator) goroutines() int {
	c.TB.Helper()
	dir := filepath.Join(proc(c.Proc.PID()), "fd")
	faultkit.Eventually(c.TB, startTimeout, "the connections of the load are gone", func() bool {
		files, err := os.ReadDir(dir)
		return err == nil && len(files) < soakConnections
	})
	if err := syscall.Kill(c.Proc.PID(), syscall.SIGQUIT); err != nil {
		c.TB.Fatal(err)
	}
	c.Proc.Wait(startTimeout)
	found := goroutineLine.FindAllString(c.Proc.Log(), -1)
	if len(found) == 0 {
		c.TB.Fatalf("no list of goroutines:\n%s", c.Proc.Log())
	}
	return len(found)
}

func TestTrend(t *testing.T) {
	of := func(s sample) int { return s.resident }
	var flat, rising []sample
	for i := range 60 {
		noise := 1000 * (i % 7)
		flat = append(flat, sample{at: time.Duration(i) * time.Second, resident: 100_000 + noise})
		rising = append(rising, sample{at: time.Duration(i) * time.Second, resident: 100_000 + noise + 500*i})
	}
	if got := trend(flat, of); got < -5000 || got > 5000 {
		t.Errorf("a flat line grows by %d", got)
	}
	if got := trend(rising, of); got < 24_500 || got > 34_500 {
		t.Errorf("a line that rises by 29500 grows by %d", got)
	}
}
