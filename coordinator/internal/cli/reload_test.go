package cli

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/redis-stream-coordinator/rsc/coordinator/internal/config"
	"github.com/redis-stream-coordinator/rsc/coordinator/internal/server"
)

// What a signal does with settings of which some can be taken over, with those that
// cannot be used, and that it ends with its context.
func TestReload(t *testing.T) {
	read := func(pairs ...string) (config.Config, []string, error) {
		flags := []config.Flag{{Key: "server.address", Value: "127.0.0.1:0"}, {Key: "coordinator.store.type", Value: "memory"}}
		for _, p := range pairs {
			key, value, _ := strings.Cut(p, "=")
			flags = append(flags, config.Flag{Key: key, Value: value})
		}
		return config.Load(config.Sources{Flags: flags})
	}
	cfg, _, err := read()
	if err != nil {
		t.Fatal(err)
	}
	log, level := new(buffer), new(slog.LevelVar)
	logger := slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: level}))
	ctx, stop := context.WithCancel(context.Background())
	s, err := server.New(ctx, cfg, server.Options{Logger: logger})
	if err != nil {
		t.Fatal(err)
	}
	served, ended := make(chan error, 1), make(chan struct{})
	go func() { served <- s.Run(ctx) }()

	steps := make(chan []string, 1)
	r := reloader{server: s, log: logger, level: level, load: func() (config.Config, []string, error) {
		next, _, err := read(<-steps...)
		return next, []string{"mind the gap"}, err
	}}
	hangups := make(chan os.Signal)
	go func() { defer close(ended); r.run(ctx, hangups) }()
	step := func(says string, pairs ...string) {
		t.Helper()
		steps <- pairs
		hangups <- syscall.SIGHUP
		eventually(t, says, func() bool { return strings.Contains(log.String(), says) })
	}
	step("changed=\"[log.level coordinator.api.token-secret]\"", "log.level=debug", "coordinator.api.token-secret=0123456789abcdef", "coordinator.routing-lease=1m")
	if level.Level() != slog.LevelDebug {
		t.Errorf("the level is %s", level.Level())
	}
	for _, part := range []string{"mind the gap", "keys=[coordinator.routing-lease]"} {
		if !strings.Contains(log.String(), part) {
			t.Errorf("the log lacks %q:\n%s", part, log)
		}
	}
	step("so nothing was changed", "log.level=loud", "coordinator.api.token-secret=canary")
	if level.Level() != slog.LevelDebug {
		t.Errorf("the level is %s", level.Level())
	}
	if text := log.String(); strings.Contains(text, "canary") || strings.Contains(text, "0123456789abcdef") {
		t.Errorf("a secret is logged:\n%s", text)
	}
	stop()
	<-ended
	if err := <-served; err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestPrintSchema(t *testing.T) {
	c := start(t, nil, nil, "server", "--print-schema")
	if code := c.wait(t); code != 0 {
		t.Fatalf("exit code %d: %s", code, c.err.String())
	}
	var schema struct {
		Properties map[string]any
	}
	if err := json.Unmarshal([]byte(c.out.String()), &schema); err != nil || schema.Properties["coordinator"] == nil {
		t.Errorf("%v: %.200s", err, c.out.String())
	}
}
