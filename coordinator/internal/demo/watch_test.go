package demo

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

func TestSettled(t *testing.T) {
	began := time.Now()
	good := func() sample {
		return sample{
			asked: began.Add(time.Second), group: protocol.Group{State: protocol.GroupStable},
			members: []protocol.Member{
				{MemberID: "a", State: protocol.MemberActive, GrantedAssignment: protocol.Shards{0}},
				{MemberID: "b", State: protocol.MemberActive, GrantedAssignment: protocol.Shards{1}},
				{MemberID: "c", State: protocol.MemberExpired},
			},
		}
	}
	tests := []struct {
		name   string
		change func(s *sample)
		want   string
	}{
		{"all is settled", func(*sample) {}, ""},
		{"an old answer", func(s *sample) { s.asked = began.Add(-time.Second) }, "has not answered yet"},
		{"no answer", func(s *sample) { s.err = errors.New("refused") }, "does not answer: refused"},
		{"somebody who should be gone", func(s *sample) { s.members[2].State = protocol.MemberActive }, "c is still in the group"},
		{"somebody who leaves", func(s *sample) { s.members[2].State = protocol.MemberLeaving }, "c is still in the group"},
		{"somebody who has not joined", func(s *sample) { s.members = s.members[:1]; s.members[0].GrantedAssignment = protocol.Shards{0, 1} }, "b has not joined yet"},
		{"a shard to let go", func(s *sample) { s.members[0].Revoking = protocol.Shards{1} }, "a has shards to let go"},
		{"a member without shards", func(s *sample) { s.members[1].GrantedAssignment = nil }, "b has no shard"},
		{"an unstable group", func(s *sample) { s.group.State = protocol.GroupReconciling }, "the group is RECONCILING"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := good()
			tt.change(&s)
			got := s.settled([]string{"a", "b"}, 2, began)
			if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
	s := good()
	if got := s.settled([]string{"a", "b"}, 1, began); got != "shards that are gone are still held" {
		t.Errorf("with one shard: %q", got)
	}
	if got := s.settled([]string{"a", "b"}, 3, began); got != "not every shard has an owner" {
		t.Errorf("with a third shard: %q", got)
	}
}

func TestJournalTellsMoves(t *testing.T) {
	began := time.Now()
	var moves []move
	j := newJournal(began, 2, func(m move) { moves = append(moves, m) })
	tell := func(member string, shard int, token int64, start, end time.Duration) {
		l := handledLine{id: "1-0", key: keyName(1), seq: "1", shard: shard, token: token, start: began.Add(start), end: began.Add(end)}
		j.line(member, strings.TrimSpace(string(l.appendTo(nil))))
	}
	tell("a", 0, 1, 10*ms, 12*ms)
	tell("a", 1, 2, 10*ms, 12*ms)
	tell("a", 0, 1, 20*ms, 25*ms)
	tell("b", 0, 3, 40*ms, 41*ms)
	tell("a", 0, 1, 26*ms, 30*ms) // told late
	tell("b", 0, 4, 50*ms, 51*ms) // the same consumer, with a new token
	tell("b", 9, 4, 50*ms, 51*ms) // no such shard: for the accounting to complain of
	if want := []move{{shard: 0, from: "a", to: "b", idle: 15 * ms}}; !slices.Equal(moves, want) {
		t.Errorf("moves %+v, want %+v", moves, want)
	}
	if c := j.counts(); c.handled != 7 || c.byMember["a"] != 4 || c.shards[0].handled != 5 || c.shards[0].token != 4 {
		t.Errorf("counts %+v", c)
	}
	j.line("b", "rubbish")
	if e := j.evidence(); len(e.handled) != 7 || j.unreadable == nil {
		t.Errorf("%d handlings, unreadable: %v", len(e.handled), j.unreadable)
	}
}

func TestLogBecomesLines(t *testing.T) {
	var lines, heard []string
	log := slog.New(newLineHandler(func(l string) { lines = append(lines, l) }, func(m string) { heard = append(heard, m) }))
	log.Debug("too small")
	log.Info(targetChanged, "moves", 3)
	log.With("stream", "orders", "shard", 4).WithGroup("inner").Warn("trouble", "err", "one\ntwo", "member", "a")
	log.Warn("trouble", "err", "again")
	log.Error("other trouble")
	if want := []string{"trouble, shard 4, inner.err one; two", "other trouble"}; !slices.Equal(lines, want) {
		t.Errorf("lines %q, want %q", lines, want)
	}
	if want := []string{targetChanged, "trouble", "trouble", "other trouble"}; !slices.Equal(heard, want) {
		t.Errorf("heard %q, want %q", heard, want)
	}
}

func TestRedisOptions(t *testing.T) {
	o, err := redisOptions("rediss://ann:secret@redis.example:6380/3")
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(o.Addrs, []string{"redis.example:6380"}) || o.DB != 3 || o.Username != "ann" || o.Password != "secret" || o.TLSConfig == nil {
		t.Errorf("options %+v", o)
	}
	if o, err = redisOptions("unix:///run/redis.sock"); err != nil || !slices.Equal(o.Addrs, []string{"/run/redis.sock"}) {
		t.Errorf("options %+v, %v", o, err)
	}
}
