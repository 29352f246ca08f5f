package cli

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/redis-stream-coordinator/rsc/coordinator/internal/config"
	"github.com/redis-stream-coordinator/rsc/coordinator/internal/server"
)

// settingFlags are the settings with a flag of their own; every other is
// reached by --set.
var settingFlags = []struct{ flag, key, usage string }{
	{"address", "server.address", "host and port to listen on (default 127.0.0.1:8080)"},
	{"id", "coordinator.id", "name of this coordinator (default: the host's name)"},
	{"redis", "coordinator.redis.url", "Redis that holds the streams and the metadata, such as redis://127.0.0.1:6379, also REDIS_URL; without one all is kept in memory; for a Cluster use --set coordinator.redis.addresses=host:port"},
	{"store", "coordinator.store.type", "where groups and streams are kept: memory, redis, or a database: sqlite:./rsc.db, postgres://user@host/db, mysql://user@host/db (default: redis if there is one)"},
	{"log-level", "log.level", "debug, info, warn or error (default info)"},
	{"log-format", "log.format", "text, json, or auto: text on a terminal (default auto)"},
}

// serverFlags is what `rsc server` is told on the command line.
type serverFlags struct {
	file   string
	print  bool
	schema bool
	set    []string
}

func newServer(a App) *cobra.Command {
	var flags serverFlags
	c := &cobra.Command{
		Use:   "server",
		Short: "Run a coordinator",
		Long: "Runs a coordinator until SIGINT or SIGTERM. SIGHUP reads the settings again: users,\n" +
			"tokens, limits, the log's level and the certificate take effect at once.\n\n" +
			"Settings come from the defaults, then --config, then the environment\n" +
			"(coordinator.loop.tick-interval is COORDINATOR_LOOP_TICK_INTERVAL), then the flags.",
		Example: "  rsc server --redis redis://127.0.0.1:6379\n" +
			"  rsc server --redis redis://127.0.0.1:6379 --store sqlite:./rsc.db\n" +
			"  rsc server --config rsc.yaml --set coordinator.loop.tick-interval=500ms\n" +
			"  rsc server --config rsc.yaml --print-config",
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error { return a.runServer(c.Context(), c.Flags(), &flags) },
	}
	c.Flags().StringVar(&flags.file, "config", a.getenv("RSC_CONFIG", ""), "settings file (YAML), also RSC_CONFIG")
	for _, s := range settingFlags {
		c.Flags().String(s.flag, "", s.usage)
	}
	c.Flags().StringArrayVar(&flags.set, "set", nil, "any setting, as `key=value`; may be repeated")
	c.Flags().BoolVar(&flags.print, "print-config", false, "print the settings in effect, secrets masked, and exit")
	c.Flags().BoolVar(&flags.schema, "print-schema", false, "print a JSON schema of the settings file and exit")
	return c
}

func (a App) runServer(ctx context.Context, given *pflag.FlagSet, flags *serverFlags) error {
	if flags.schema {
		_, err := a.Stdout.Write(config.JSONSchema())
		return err
	}
	cfg, warnings, err := a.loadConfig(given, flags)
	if err != nil || flags.print {
		for _, w := range warnings {
			fmt.Fprintln(a.Stderr, "warning:", w)
		}
	}
	if err != nil {
		return err
	}
	if flags.print {
		return cfg.Print(a.Stdout)
	}
	logger, level, err := a.newLevelledLogger(cfg.Log)
	if err != nil {
		return err
	}
	// From here on it does not end the process, however early it comes.
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	for _, w := range warnings {
		logger.WarnContext(ctx, "about the settings", "warning", w)
	}
	s, err := server.New(ctx, cfg, server.Options{Logger: logger, Version: a.version()})
	if err != nil {
		return err
	}
	r := reloader{server: s, log: logger, level: level, load: func() (config.Config, []string, error) { return a.loadConfig(given, flags) }}
	running, stop := context.WithCancel(ctx)
	var reloading sync.WaitGroup
	reloading.Go(func() { r.run(running, hangups) })
	err = s.Run(ctx)
	stop()
	reloading.Wait()
	return err
}

// loadConfig reads the settings, with what is to be said about them.
func (a App) loadConfig(given *pflag.FlagSet, flags *serverFlags) (config.Config, []string, error) {
	sources := config.Sources{File: flags.file, Environ: a.Environ}
	for _, one := range flags.set {
		key, value, ok := strings.Cut(one, "=")
		if !ok {
			return config.Config{}, nil, usagef("--set takes key=value, got %q", one)
		}
		sources.Flags = append(sources.Flags, config.Flag{Key: key, Value: value, Name: "--set"})
	}
	for _, s := range settingFlags {
		if f := given.Lookup(s.flag); f.Changed {
			sources.Flags = append(sources.Flags, config.Flag{Key: s.key, Value: f.Value.String(), Name: "--" + s.flag})
		}
	}
	cfg, warnings, err := config.Load(sources)
	if err != nil {
		err = &usageError{err: fmt.Errorf("the settings cannot be used:\n%w", err), settings: true}
	}
	return cfg, warnings, err
}
