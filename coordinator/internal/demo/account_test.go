package demo

import (
	"slices"
	"strings"
	"testing"
	"time"
)

const ms = time.Millisecond

// The run of these tests: shard 0 goes from a to b after 1 s, by agreement; the
// coordinator restarts from 5 s to 6 s, while b goes on; shard 1 belongs to c,
// which is killed at 2 s, and comes to d at 5 s. Each record is sent at its time
// and taken 1 ms later, for 1 ms. Key 1 lives on shard 0, key 2 on shard 1.
const (
	killed   = 2000 * ms
	takeover = 3000 * ms
)

func at(shard, number int) place { return place{shard, recordID{uint64(number), 0}} }

// goodRun is a run in which everything is as it must be; the record that c
// handled last was not acknowledged any more, so d handles it again.
func goodRun() *evidence {
	e := &evidence{
		kills:      map[string]time.Duration{"c": killed},
		restart:    window{5000 * ms, 6000 * ms},
		rebalances: 3, reshards: 2,
		bounds: bounds{handover: 2000 * ms, takeover: 3900 * ms, restartPause: 500 * ms},
	}
	send := func(shard, key, seq int, when time.Duration) sent {
		s := sent{place: at(shard, seq), content: content{key, seq}, at: when}
		e.acknowledged = append(e.acknowledged, s)
		e.stored = append(e.stored, stored{s.place, s.content})
		return s
	}
	handle := func(s sent, member string, token int64, start time.Duration) {
		e.handled = append(e.handled, handling{place: s.place, content: s.content, member: member, token: token, start: start, end: start + ms})
	}
	for i := 1; i <= 80; i++ { // shard 0: a record each 100 ms
		when := time.Duration(i) * 100 * ms
		switch s := send(0, 1, i, when); {
		case i <= 10:
			handle(s, "a", 11, when+ms)
		case i == 11: // 40 ms late: the hand-over
			handle(s, "b", 12, when+40*ms)
		default:
			handle(s, "b", 12, when+ms)
		}
	}
	for i := 1; i <= 80; i++ { // shard 1
		when := time.Duration(i) * 100 * ms
		switch s := send(1, 2, i, when); {
		case when < killed:
			handle(s, "c", 13, when+ms)
		case when < killed+takeover: // d catches up, one record a millisecond
			handle(s, "d", 14, killed+takeover+time.Duration(i)*ms)
		default:
			handle(s, "d", 14, when+100*ms)
		}
	}
	again := e.find("c", 19)
	handle(sent{place: again.place, content: again.content}, "d", 14, killed+takeover)
	return e
}

// find returns the first handling of a number by a member.
func (e *evidence) find(member string, seq int) *handling {
	i := slices.IndexFunc(e.handled, func(h handling) bool { return h.member == member && h.seq == seq })
	return &e.handled[i]
}

func (e *evidence) drop(member string, seq int) {
	e.handled = slices.DeleteFunc(e.handled, func(h handling) bool { return h.member == member && h.seq == seq })
}

func (e *evidence) lose(list []stored, shard, seq int) []stored {
	return slices.DeleteFunc(list, func(s stored) bool { return s.place == at(shard, seq) })
}

func TestAccount(t *testing.T) {
	clean := Figures{
		Produced: 160, Processed: 160, Duplicates: 1, Rebalances: 3, Reshards: 2,
		Handover: 40 * ms, Takeover: takeover, RestartPause: 99 * ms,
		Handovers: 1, Takeovers: 1, Steady: 2,
	}
	tests := []struct {
		name string
		// plant changes the run, want what is to come of it.
		plant      func(e *evidence)
		want       func(f *Figures)
		complaints []string
	}{
		{"all is well", nil, nil, nil},
		{
			"a record that nobody handled",
			func(e *evidence) { e.drop("b", 40) },
			func(f *Figures) { f.Processed, f.Lost = 159, 1 },
			[]string{"1 records were lost: they were stored and nobody handled them, the first of them key 1, number 40 (shard 0, id 40-0)"},
		},
		{
			"the last record of all was not handled",
			func(e *evidence) { e.drop("d", 80) },
			func(f *Figures) { f.Processed, f.Lost = 159, 1 },
			[]string{"lost"},
		},
		{
			"an acknowledged record that Redis does not have",
			func(e *evidence) { e.stored = e.lose(e.stored, 0, 40); e.drop("b", 40) },
			func(f *Figures) { f.Processed = 159 },
			[]string{"1 records were acknowledged by Redis and are not in it"},
		},
		{
			"a record that changed on the way",
			func(e *evidence) { e.stored[0].seq = 99 },
			func(f *Figures) { f.Processed, f.Lost = 159, 1 },
			[]string{"another content than was sent", "were lost", "that do not lie in Redis with that content"},
		},
		{
			"a record that nobody sent",
			func(e *evidence) {
				e.stored = append(e.stored, stored{at(0, 500), content{1, 500}})
				e.handled = append(e.handled, handling{place: at(0, 500), content: content{1, 500}, member: "b", token: 12, start: 9000 * ms, end: 9001 * ms})
			},
			func(f *Figures) { f.Processed = 161 },
			[]string{"1 records lie in Redis that the producer did not send"},
		},
		{
			"a record handled that is nowhere",
			func(e *evidence) {
				e.handled = append(e.handled, handling{place: at(0, 500), content: content{1, 500}, member: "b", token: 12, start: 9000 * ms, end: 9001 * ms})
			},
			nil,
			[]string{"1 records were handled that do not lie in Redis"},
		},
		{
			"an uncertain record that was stored",
			func(e *evidence) { e.uncertain = append(e.uncertain, e.acknowledged[79].content); e.unsend(79) },
			func(f *Figures) { f.Produced, f.Uncertain, f.UncertainStored = 159, 1, 1 },
			nil,
		},
		{
			"an uncertain record that was not stored",
			func(e *evidence) { e.uncertain = append(e.uncertain, content{1, 81}) },
			func(f *Figures) { f.Uncertain = 1 },
			nil,
		},
		{
			"a refused record",
			func(e *evidence) { e.refused = append(e.refused, content{1, 81}) },
			nil,
			[]string{"1 records could not be published, the first of them key 1, number 81"},
		},
		{
			"a refused record that was stored",
			func(e *evidence) { e.refused = append(e.refused, e.acknowledged[79].content); e.unsend(79) },
			func(f *Figures) { f.Produced = 159 },
			[]string{"although the producer was told that they were not stored", "could not be published"},
		},
		{
			"a record left pending",
			func(e *evidence) { e.pending = 3 },
			nil,
			[]string{"3 records are still pending"},
		},
		{
			"a record never handed out",
			func(e *evidence) { e.unread = 2 },
			nil,
			[]string{"2 records were never handed out"},
		},
		{
			"a record handled again by its own consumer",
			func(e *evidence) { e.repeat("b", 80, "b", 12, 9000*ms) },
			func(f *Figures) { f.Duplicates, f.OrderViolations = 2, 1 },
			[]string{"1 records were handled again although their first consumer was not killed", "out of the order"},
		},
		{
			"a record handled again after a hand-over by agreement",
			func(e *evidence) { e.repeat("a", 10, "b", 12, 1100*ms) },
			func(f *Figures) { f.Duplicates, f.Handover = 2, 98*ms },
			[]string{"1 records were handled again although their first consumer was not killed"},
		},
		{
			"a record handled again before its first consumer was killed",
			func(e *evidence) { e.find("d", 19).start = killed - 50*ms },
			func(f *Figures) { f.Handovers, f.Takeovers, f.Takeover, f.Handover = 2, 0, 0, 48*ms },
			[]string{"handled again although", "no shard of the consumer that was killed was seen in other hands"},
		},
		{
			"two consumers at work on one shard",
			func(e *evidence) { e.find("a", 10).end = 1150 * ms },
			func(f *Figures) { f.Overlaps, f.OrderViolations, f.Handover = 1, 1, 0 },
			[]string{"1 records were handled while another consumer held the shard, the first of them key 1, number 11 (shard 0, id 11-0) at b with token 12 after 1140 ms", "out of the order"},
		},
		{
			"one consumer with two tokens at work on one shard",
			func(e *evidence) {
				for i := range e.handled {
					if e.handled[i].member == "b" {
						e.handled[i].member = "a"
					}
				}
				e.find("a", 10).end = 1150 * ms
			},
			func(f *Figures) { f.Overlaps, f.OrderViolations, f.Handover = 1, 1, 0 },
			[]string{"held the shard", "out of the order"},
		},
		{
			"two consumers with one token, one after the other",
			func(e *evidence) {
				for i := range e.handled {
					if e.handled[i].member == "b" {
						e.handled[i].token = 11
					}
				}
			},
			nil,
			nil,
		},
		{
			"an old holder that wakes up",
			func(e *evidence) { h := e.find("b", 40); h.member, h.token = "a", 11 },
			func(f *Figures) { f.Overlaps = 1; f.Handover = 0 },
			[]string{"1 records were handled while another consumer held the shard, the first of them key 1, number 40 (shard 0, id 40-0) at a with token 11"},
		},
		{
			"two records of a key in the wrong order",
			func(e *evidence) {
				x, y := e.find("b", 40), e.find("b", 41)
				x.start, y.start = y.start, x.start
				x.end, y.end = y.end, x.end
			},
			func(f *Figures) { f.OrderViolations = 1 },
			[]string{"1 records were handled out of the order of their key, the first of them key 1, number 40"},
		},
		{
			"two records of a key at the same time",
			func(e *evidence) { e.find("b", 40).end = 4150 * ms },
			func(f *Figures) { f.OrderViolations = 1 },
			[]string{"1 records were handled out of the order of their key, the first of them key 1, number 41"},
		},
		{
			"order broken by a hand-over",
			func(e *evidence) {
				x, y := e.find("a", 10), e.find("b", 11)
				x.place, y.place = y.place, x.place
				x.content, y.content = y.content, x.content
			},
			func(f *Figures) { f.OrderViolations = 1; f.Handover = 138 * ms },
			[]string{"out of the order of their key"},
		},
		{
			"a slow takeover",
			func(e *evidence) {
				for i := range e.handled {
					if e.handled[i].member == "d" {
						e.handled[i].start += time.Second
						e.handled[i].end += time.Second
					}
				}
			},
			func(f *Figures) { f.Takeover, f.RestartPause, f.Steady = 4*time.Second, ms, 1 },
			[]string{"the shards of the consumer that was killed were idle for 4000 ms, at most 3900 ms are allowed"},
		},
		{
			"a shard that paused at the restart",
			func(e *evidence) {
				for i := range e.handled {
					if h := &e.handled[i]; h.member == "b" && h.seq >= 52 {
						h.start += 600 * ms
						h.end += 600 * ms
					}
				}
			},
			func(f *Figures) { f.RestartPause = 601 * ms },
			[]string{"a shard that stayed where it was paused for 601 ms while the coordinator was restarted, at most 500 ms are allowed"},
		},
		{
			"a pause at another time",
			func(e *evidence) {
				for i := range e.handled {
					if h := &e.handled[i]; h.member == "b" && h.seq >= 65 {
						h.start += 600 * ms
						h.end += 600 * ms
					}
				}
			},
			nil,
			nil,
		},
		{
			"a pause without anything to do is none",
			func(e *evidence) { e.silence(0, 50, 59) },
			func(f *Figures) { f.Produced, f.Processed, f.Steady = 150, 150, 1 },
			nil,
		},
		{
			"a slow hand-over",
			func(e *evidence) {
				for i := range e.handled {
					if h := &e.handled[i]; h.member == "b" {
						h.start += 2 * time.Second
						h.end += 2 * time.Second
					}
				}
			},
			func(f *Figures) { f.Handover = 2040 * ms },
			[]string{"a shard was idle for 2040 ms on its way from one living consumer to another, at most 2000 ms are allowed"},
		},
		{
			"nothing at all",
			func(e *evidence) { e.acknowledged, e.stored, e.handled = nil, nil, nil },
			func(f *Figures) { *f = Figures{Rebalances: 3, Reshards: 2} },
			[]string{"nothing was produced", "no shard was seen to go from one living consumer to another", "no shard of the consumer that was killed", "no shard was seen at work"},
		},
		{
			"a shard that is gone, read to its end",
			func(e *evidence) { e.retire() },
			nil,
			nil,
		},
		{
			"a shard that went with a record that nobody handled",
			func(e *evidence) { e.retire(); e.drop("d", 80) },
			func(f *Figures) { f.Processed, f.Lost = 159, 1 },
			[]string{"1 records were lost: they were stored and nobody handled them, the first of them key 2, number 80 (shard 1, id 80-0)"},
		},
		{
			"a record that nobody sent, handled from a shard that is gone",
			func(e *evidence) {
				e.retire()
				e.handled = append(e.handled, handling{place: at(1, 500), content: content{2, 500}, member: "d", token: 14, start: 9000 * ms, end: 9001 * ms})
			},
			func(f *Figures) { f.Processed = 161 },
			[]string{"1 records lie in Redis that the producer did not send"},
		},
		{
			"an uncertain record, handled from a shard that is gone",
			func(e *evidence) {
				e.retire()
				e.uncertain = append(e.uncertain, e.acknowledged[159].content)
				e.unsend(159)
			},
			func(f *Figures) { f.Produced, f.Uncertain, f.UncertainStored = 159, 1, 1 },
			nil,
		},
		{
			"a refused record, handled from a shard that is gone",
			func(e *evidence) {
				e.retire()
				e.refused = append(e.refused, e.acknowledged[159].content)
				e.unsend(159)
			},
			func(f *Figures) { f.Produced = 159 },
			[]string{"although the producer was told that they were not stored", "could not be published"},
		},
		{
			"a record of a shard that is gone, handled with another content",
			func(e *evidence) { e.retire(); e.find("d", 80).seq = 99 },
			func(f *Figures) { f.Processed, f.Lost = 159, 1 },
			[]string{"1 records were lost", "1 records were handled that do not lie in Redis with that content"},
		},
		{
			"a key that moved to another shard, and is handled there before it is done in the first",
			func(e *evidence) { e.move(81, 150*ms, 5000*ms) },
			func(f *Figures) { f.Produced, f.Processed = 161, 161 },
			nil,
		},
		{
			"a key that moved to another shard, and is handled out of order there",
			func(e *evidence) { e.move(81, 150*ms, 8001*ms); e.move(82, 160*ms, 7990*ms) },
			func(f *Figures) { f.Produced, f.Processed, f.OrderViolations = 162, 162, 1 },
			[]string{"1 records were handled out of the order of their key, the first of them key 1, number 81 (shard 1, id 81-1)"},
		},
		{
			"another number of rebalances",
			func(e *evidence) { e.rebalances = 7 },
			func(f *Figures) { f.Rebalances = 7 },
			nil,
		},
		{
			"no rebalance",
			func(e *evidence) { e.rebalances = 0 },
			func(f *Figures) { f.Rebalances = 0 },
			[]string{"the coordinator told of no rebalance"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e, want := goodRun(), clean
			if tt.plant != nil {
				tt.plant(e)
			}
			if tt.want != nil {
				tt.want(&want)
			}
			got, complaints := account(e)
			if got != want {
				type all Figures // shows every field
				t.Errorf("figures:\n got %+v\nwant %+v", all(got), all(want))
			}
			if len(complaints) != len(tt.complaints) {
				t.Fatalf("complaints:\n%s\nwant %d", strings.Join(complaints, "\n"), len(tt.complaints))
			}
			for i, fragment := range tt.complaints {
				if !strings.Contains(complaints[i], fragment) {
					t.Errorf("complaint %d is %q, want it to say %q", i, complaints[i], fragment)
				}
			}
		})
	}
}

// unsend takes a record out of those that Redis acknowledged.
func (e *evidence) unsend(i int) { e.acknowledged = slices.Delete(e.acknowledged, i, i+1) }

// repeat has a record, that member handled, handled once more.
func (e *evidence) repeat(member string, seq int, again string, token int64, start time.Duration) {
	h := *e.find(member, seq)
	h.member, h.token, h.start, h.end = again, token, start, start+ms
	e.handled = append(e.handled, h)
}

// retire has shard 1 be gone: what lay in it cannot be looked up any more.
func (e *evidence) retire() {
	e.gone = []int{1}
	e.stored = slices.DeleteFunc(e.stored, func(s stored) bool { return s.shard == 1 })
}

// move has a record of key 1 stored in the other shard at one time, and handled there by
// its last holder at another.
func (e *evidence) move(seq int, when, start time.Duration) {
	p, c := place{1, recordID{uint64(seq), 1}}, content{1, seq}
	e.acknowledged = append(e.acknowledged, sent{place: p, content: c, at: when})
	e.stored = append(e.stored, stored{p, c})
	e.handled = append(e.handled, handling{place: p, content: c, member: "d", token: 14, start: start, end: start + ms})
}

// silence takes away the records of a shard from one number to another.
func (e *evidence) silence(shard, from, to int) {
	within := func(p place) bool {
		return p.shard == shard && p.id.millis >= uint64(from) && p.id.millis <= uint64(to)
	}
	e.acknowledged = slices.DeleteFunc(e.acknowledged, func(s sent) bool { return within(s.place) })
	e.stored = slices.DeleteFunc(e.stored, func(s stored) bool { return within(s.place) })
	e.handled = slices.DeleteFunc(e.handled, func(h handling) bool { return within(h.place) })
}

func TestFiguresLine(t *testing.T) {
	f := Figures{
		Produced: 1, Processed: 2, Duplicates: 3, Lost: 4, Overlaps: 5, OrderViolations: 6, Rebalances: 7, Reshards: 8,
		Handover: 9 * ms, Takeover: 10 * ms, RestartPause: 11 * ms,
	}
	const want = "produced=1 processed=2 duplicates=3 lost=4 overlaps=5 order_violations=6 rebalances=7 reshards=8 handover_ms_max=9 takeover_ms=10 restart_pause_ms=11"
	if got := f.String(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
