package consumer_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redis-stream-coordinator/rsc/consumer"
)

// The smallest whole program: it handles records until it is told to stop.
func Example() {
	c, err := consumer.New(consumer.Config{
		Coordinators: []string{"http://127.0.0.1:8080"},
		Stream:       "orders",
		Group:        "billing",
		Redis:        redis.UniversalOptions{Addrs: []string{"127.0.0.1:6379"}},
		Handler: func(_ context.Context, r consumer.Record) error {
			fmt.Println(r.Shard, r.ID, r.Key, r.Values)
			return nil
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err = c.Run(ctx)
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

// A handler that fences its database: a row is changed only by the newest owner
// of the shard, so a handler that outlived its lease changes nothing any more.
// It must return when its context ends.
func ExampleHandler() {
	var db *sql.DB
	var handler consumer.Handler = func(ctx context.Context, r consumer.Record) error {
		done, err := db.ExecContext(ctx,
			`UPDATE balance SET amount = amount + $1, token = $2 WHERE account = $3 AND token <= $2`,
			r.Values["amount"], r.Token, r.Key)
		if err != nil {
			return err // it is called again, after a pause
		}
		if n, err := done.RowsAffected(); err == nil && n == 0 && ctx.Err() != nil {
			return context.Cause(ctx) // the shard is somebody else's now
		}
		return nil
	}
	_ = handler
}

// Credentials that renew themselves: the function is asked before each heartbeat.
func ExampleCredentialsFunc() {
	var currentToken func(context.Context) (string, error)
	cfg := consumer.Config{
		Credentials: consumer.CredentialsFunc(func(ctx context.Context) (string, error) {
			token, err := currentToken(ctx)
			if err != nil {
				return "", err
			}
			return "Bearer " + token, nil
		}),
	}
	_ = cfg
}

// The password goes to the coordinator's login only; everything else carries a
// token, which is renewed in time.
func ExampleNewLogin() {
	coordinators := []string{"http://127.0.0.1:8080"}
	login, err := consumer.NewLogin(consumer.LoginConfig{
		Coordinators: coordinators, Username: "billing", Password: os.Getenv("COORDINATOR_PASSWORD"),
	})
	if err != nil {
		log.Fatal(err)
	}
	cfg := consumer.Config{Coordinators: coordinators, Credentials: login}
	_ = cfg
}

// reader is an application that reads in its own way.
type reader struct{}

func (reader) Assigned(ctx context.Context, s consumer.Shard) {
	fmt.Println("start reading", s.Key, "with token", s.Token)
	_ = ctx // ends when all work on the shard must end
}

func (reader) Revoked(ctx context.Context, s consumer.Shard) {
	fmt.Println("stop reading", s.Key, "and finish what is in hand")
	_ = ctx // ends at the deadline
}

func (reader) Lost(s consumer.Shard, cause error) {
	if errors.Is(cause, consumer.ErrLeaseEnded) {
		fmt.Println("no coordinator answered in time")
	}
	fmt.Println("drop everything of", s.Key)
}

// An application that reads for itself gets assignments and tokens only.
func ExampleLifecycle() {
	c, err := consumer.New(consumer.Config{
		Coordinators: []string{"http://127.0.0.1:8080"},
		Stream:       "orders",
		Group:        "billing",
		MemberID:     "billing-0", // stays the same, so that a restart gets its shards back
		Lifecycle:    reader{},
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := c.Run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

// metrics counts what the application wants to know.
type metrics struct {
	consumer.NopObserver

	handled, failed atomic.Int64
}

// Handled is called on the handlers' goroutines, side by side.
func (m *metrics) Handled(e consumer.HandledEvent) {
	if e.Err != nil {
		m.failed.Add(1)
		return
	}
	m.handled.Add(1)
	if e.Lag > time.Minute {
		log.Printf("record %s of %s waited %s", e.ID, e.Shard.Key, e.Lag)
	}
}

// An Observer embeds NopObserver and has the methods that it wants.
func ExampleObserver() {
	m := new(metrics)
	cfg := consumer.Config{Observer: m}
	_ = cfg
}

// Every record is kept for a week, and a million of the newest for longer.
func ExampleRetention() {
	cfg := consumer.Config{
		Retention: consumer.Retention{For: 7 * 24 * time.Hour, Records: 1_000_000},
	}
	_ = cfg
}
