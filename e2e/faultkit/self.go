package faultkit

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"testing"
)

// selfVariable hands a process of the test binary what it is to do.
const selfVariable = "RSC_E2E_SELF"

// Self makes the test binary another program of its suite too: in a process that
// RunSelf started it runs program with what RunSelf was given, and ends the process
// when that returns, with 1 after an error. Elsewhere it returns at once. TestMain
// calls it first. ctx ends with SIGTERM; log goes to standard error.
func Self[P any](program func(ctx context.Context, plan P, log *slog.Logger) error) {
	if text := os.Getenv(selfVariable); text != "" {
		os.Exit(self(text, program))
	}
}

func self[P any](text string, program func(context.Context, P, *slog.Logger) error) int {
	log := slog.New(slog.NewJSONHandler(os.Stderr, nil))
	var plan P
	if err := json.Unmarshal([]byte(text), &plan); err != nil {
		log.Error("no plan", "err", err)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := program(ctx, plan, log); err != nil {
		log.Error("the process ended", "err", err)
		return 1
	}
	return 0
}

// RunSelf starts the test binary as the program that Self was given; plan is what that
// is to do, and travels as JSON.
func RunSelf(tb testing.TB, name string, plan any) *Process {
	tb.Helper()
	text, err := json.Marshal(plan)
	if err != nil {
		tb.Fatal(err)
	}
	program, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	return Run(tb, name, []string{selfVariable + "=" + string(text)}, program)
}
