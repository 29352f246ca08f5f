package consumer_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/redis-stream-coordinator/rsc/consumer"
)

// TestAMissingPermissionIsRefusedAtStart: a member that cannot read would keep
// shards from those who can. Run names the rules that its user lacks.
func TestAMissingPermissionIsRefusedAtStart(t *testing.T) {
	b := newBed(t, 1, steady)
	ctx := context.Background()
	for _, tc := range []struct {
		name  string
		rules []any
		want  []string
	}{
		{"a command", []any{"~*", "+@all", "-xpending"}, []string{"ACL SETUSER plain +xpending"}},
		{"the read", []any{"~*", "+@all", "-xreadgroup"}, []string{"ACL SETUSER plain +xreadgroup"}},
		{"several", []any{"~*", "+@all", "-xack", "-xclaim", "-xrange"}, []string{"+xack", "+xclaim", "+xrange"}},
		{"a subcommand", []any{"~*", "+@all", "-xinfo|groups"}, []string{"ACL SETUSER plain +xinfo|groups"}},
		{"dead letters", []any{"~*", "+@all", "-xadd"}, []string{"ACL SETUSER plain +xadd"}},
		{"the keys", []any{"~other:*", "+@all"}, []string{"ACL SETUSER plain ~orders:*"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			args := append([]any{"ACL", "SETUSER", "plain", "reset", "on", ">secret"}, tc.rules...)
			if err := b.redis.Do(ctx, args...).Err(); err != nil {
				t.Fatal(err)
			}
			cfg := b.config("a", func(context.Context, consumer.Record) error { return nil })
			cfg.Redis.Username, cfg.Redis.Password = "plain", "secret"
			cfg.DeadLetter.Enabled = true
			c, err := consumer.New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			ctx, done := context.WithTimeout(ctx, patience)
			defer done()
			err = c.Run(ctx)
			if !errors.Is(err, consumer.ErrRedisPermission) {
				t.Fatalf("Run returned %v", err)
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the refusal does not name %q: %v", want, err)
				}
			}
		})
	}
	if n := b.redis.Exists(ctx, stream+consumer.DeadLetterSuffix).Val(); n != 0 {
		t.Error("the look at Redis made a dead-letter stream")
	}
	if n := len(b.redis.XInfoConsumers(ctx, key(0), group).Val()); n != 0 {
		t.Errorf("the look at Redis made %d consumers", n)
	}
}

// TestTheListedPermissionsSuffice: with what README.md lists, and no more, a member
// starts and reads.
func TestTheListedPermissionsSuffice(t *testing.T) {
	b := newBed(t, 1, steady)
	b.do("ACL", "SETUSER", "plain", "reset", "on", ">secret", "~"+stream+":*", "-@all", "+ping",
		"+xreadgroup", "+xack", "+xpending", "+xclaim", "+xrange", "+xinfo|stream", "+xinfo|groups", "+exists", "+xgroup|create",
		"+xadd")
	j := newJournal()
	cfg := b.config("a", j.handler("a", func(context.Context, consumer.Record) error { return nil }))
	cfg.Redis.Username, cfg.Redis.Password = "plain", "secret"
	cfg.DeadLetter.Enabled = true
	c := start(t, cfg)
	b.add(3)
	j.await(t, 3)
	c.stop()
	if n := b.pending(); n != 0 {
		t.Errorf("%d records are pending", n)
	}
}

// TestAnEndBeforeTheJoin: what was never held does not wait for a lease.
func TestAnEndBeforeTheJoin(t *testing.T) {
	b := newBed(t, 1, steady)
	b.coord.setAway(true)
	var book logbook
	cfg := b.config("a", func(context.Context, consumer.Record) error { return nil })
	cfg.Logger = book.logger()
	c := start(t, cfg)
	eventually(t, "the coordinator is missed", func() bool { return len(book.find("did not answer")) > 0 })
	c.stop()
	if len(book.find("ended before a coordinator let it join")) != 1 || len(book.find("goodbye")) != 0 {
		t.Errorf("the log: %v", book.find(""))
	}
}
