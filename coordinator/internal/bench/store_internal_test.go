package bench

import (
	"testing"
	"time"
)

const info = "# Commandstats\r\ncmdstat_evalsha:calls=7,usec=90,usec_per_call=12.86,rejected_calls=0,failed_calls=0\r\n" +
	"cmdstat_hset:calls=30,usec=1\r\n# Stats\r\ntotal_net_input_bytes:1000\r\ntotal_net_output_bytes:400\r\n" +
	"# CPU\r\nused_cpu_sys:0.250000\r\nused_cpu_user:1.500000\r\nused_cpu_sys_children:9\r\n"

func TestCountersOfSeveralServersAreAddedUp(t *testing.T) {
	c := counters{calls: map[string]int64{}}
	for range 2 {
		if err := c.add(info); err != nil {
			t.Fatal(err)
		}
	}
	if c.scripts() != 14 || c.calls["hset"] != 60 || c.in != 2000 || c.out != 800 || c.cpu != 3500*time.Millisecond {
		t.Errorf("%+v", c)
	}
	d := c.since(counters{calls: map[string]int64{"evalsha": 4, "hset": 60}, in: 1})
	if d.calls["evalsha"] != 10 || d.in != 1999 {
		t.Errorf("%+v", d)
	}
	if _, there := d.calls["hset"]; there {
		t.Errorf("what was not called is listed: %v", d.calls)
	}
	if err := c.add("cmdstat_get:calls=x"); err == nil {
		t.Error("a count that is no number is taken")
	}
}
