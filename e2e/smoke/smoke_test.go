package smoke

import (
	"os"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/e2e/faultkit"
	"github.com/redis-stream-coordinator/rsc/e2e/rsctest"
)

// What the compose file declares.
const (
	stream = "orders"
	group  = "billing"
	shards = 8
)

// maxProgram bounds the command, without symbols; the image has little else in it.
const maxProgram = 39_000_000

// TestSmoke plays the stack without containers, and without Grafana.
func TestSmoke(t *testing.T) {
	asked(t, "processes", "smoke")
	faultkit.Need(t, "redis-server", "prometheus", "haproxy")
	began := time.Now()
	s := newStack(t)
	program, err := os.Stat(rsctest.Program(t))
	if err != nil {
		t.Fatal(err)
	}
	if program.Size() > maxProgram {
		t.Errorf("the command has %d bytes, and an image with it is to stay below 40 MB", program.Size())
	}
	t.Logf("the command: %.1f MB, built in %.0f s", float64(program.Size())/1e6, time.Since(began).Seconds())
	for _, name := range []string{"coordinator-1", "coordinator-2"} {
		if said := s.warnings(name); said != "" {
			t.Errorf("%s: the compose file has settings that the command does not take as they are:\n%s", name, said)
		}
	}

	began = time.Now()
	s.up()
	p := s.prometheus()
	p.checkTargets(t)
	p.checkFlow(t)
	p.checkOwners(t, "consumer-1", "consumer-2")
	t.Logf("up, with records that flow: after %.0f s", time.Since(began).Seconds())
	p.checkRules(t)

	// Some life for the graphs, and for what an operator does first.
	for range 2 {
		s.stop("consumer-2")
		p.checkOwners(t, "consumer-1")
		s.start("consumer-2")
		p.checkOwners(t, "consumer-1", "consumer-2")
	}
	t.Log("consumer-2 stopped and started twice: its shards went to consumer-1 and came back")
	s.running["consumer-1"].Kill()
	p.checkOwners(t, "consumer-2")
	s.start("consumer-1")
	p.checkOwners(t, "consumer-1", "consumer-2")
	t.Log("consumer-1 killed and started: consumer-2 took its shards over when its lease was over")
	s.running["coordinator-1"].Kill()
	p.checkTargetDown(t, "coordinator-1")
	p.checkFlow(t)
	s.await("coordinator-1", s.healthy("coordinator-1"))
	p.checkTargets(t)
	p.checkFlow(t)
	t.Log("coordinator-1 killed and started: records flowed on")

	p.checkDashboards(t)
	p.checkRules(t)
	s.account(t)
	s.checkStoreThatHangs(t)
	t.Logf("Grafana did not run: its dashboards were checked against the schema, and all their expressions against Prometheus")
	t.Logf("smoke: ok, %.0f s", time.Since(began).Seconds())
}

var produced = regexp.MustCompile(`produce: read=(\d+) stored=(\d+) uncertain=(\d+) failed=(\d+)`)

// account stops the producer and requires that every record it has stored is
// printed by a consumer.
func (s *stack) account(t *testing.T) {
	t.Helper()
	s.stop("producer")
	said := produced.FindStringSubmatch(s.running["producer"].Log())
	if said == nil {
		t.Fatalf("the producer does not say what it stored:\n%s", s.running["producer"].Log())
	}
	stored, err := strconv.Atoi(said[2])
	if err != nil {
		t.Fatal(err)
	}
	uncertain, err := strconv.Atoi(said[3])
	if err != nil {
		t.Fatal(err)
	}
	if said[4] != "0" {
		t.Errorf("the producer says %q", said[0])
	}
	eventually(t, "every stored record is printed", func() bool { return len(s.printed()) >= stored })
	ids, again := s.printed(), 0
	for _, n := range ids {
		again += n - 1
	}
	// One that got no answer in time, as from a Redis that stands still, may be stored.
	if len(ids) < stored || len(ids) > stored+uncertain {
		t.Errorf("%d records were stored, %d may be, and %d printed", stored, uncertain, len(ids))
	}
	t.Logf("records: %d stored, %d printed, %d of them again after the crash", stored, len(ids), again)
}
