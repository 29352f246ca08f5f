package cli

import (
	"bufio"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// readSample reads an input of orders to its end and returns the lines.
func readSample(s *sampleOrders) []string {
	var lines []string
	for in := bufio.NewScanner(s); in.Scan(); {
		lines = append(lines, in.Text())
	}
	return lines
}

func TestSampleOrdersComeAtTheirRate(t *testing.T) {
	for _, rate := range []int{1, 7, 100, maxSampleRate} {
		synctest.Test(t, func(t *testing.T) {
			done := make(chan struct{})
			s := newSampleOrders(done, rate)
			time.AfterFunc(10*time.Second+samplePause/2, func() { close(done) })
			lines := readSample(s)
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			// Both may be ready at the end, so one look at the clock may be missing.
			most := 10 * rate
			if len(lines) > most || len(lines) < most-max(1, rate/100) {
				t.Errorf("%d a second for 10 s: %d lines", rate, len(lines))
			}
			customers := map[string]bool{}
			for i, text := range lines {
				var order struct {
					Order    int    `json:"order"`
					Customer string `json:"customer"`
				}
				if err := json.Unmarshal([]byte(text), &order); err != nil || order.Order != i+1 || !strings.HasPrefix(order.Customer, "customer-") {
					t.Fatalf("line %d: %s (%v)", i+1, text, err)
				}
				customers[order.Customer] = true
			}
			if len(lines) >= 10*sampleCustomers && len(customers) != sampleCustomers {
				t.Errorf("%d customers in %d orders, want %d", len(customers), len(lines), sampleCustomers)
			}
		})
	}
}

// A reader that was away for long gets a second's worth and then the rate again,
// not all that it missed.
func TestSampleOrdersAfterAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rate = 100
		done := make(chan struct{})
		s := newSampleOrders(done, rate)
		time.Sleep(time.Hour)
		time.AfterFunc(5*time.Second+samplePause/2, func() { close(done) })
		lines := readSample(s)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if len(lines) < 5*rate || len(lines) > 7*rate {
			t.Errorf("%d lines in 5 s after an hour, want about %d", len(lines), 6*rate)
		}
	})
}

func TestProduceSampleUntilItIsStopped(t *testing.T) {
	w := newWorld(t)
	c := start(t, w.environ, nil, "produce", "--stream", "orders", "--sample", "200")
	reader := w.consume(t)
	eventually(t, "made-up orders are printed", func() bool { return strings.Count(reader.out.String(), "\n") >= 20 })
	c.stop()
	if code := c.wait(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if said := c.err.String(); !strings.Contains(said, "uncertain=0 failed=0") {
		t.Errorf("it said\n%s", said)
	}
	if !strings.Contains(reader.out.String(), `"key":"customer-`) {
		t.Errorf("the records have no keys:\n%.500s", reader.out.String())
	}
}

func TestProduceSampleIsRefused(t *testing.T) {
	for _, args := range [][]string{{"--sample", "-1"}, {"--sample", "10001"}, {"--sample", "5", "orders.ndjson"}} {
		c := start(t, nil, nil, append([]string{"produce", "--stream", "orders"}, args...)...)
		if code := c.wait(t); code != exitUsage || !strings.Contains(c.err.String(), "--sample") {
			t.Errorf("%q: exit code %d:\n%s", args, code, c.err.String())
		}
	}
}
