package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/lmittmann/tint"
	"github.com/mattn/go-isatty"

	"github.com/redis-stream-coordinator/rsc/adapters/redis"
	"github.com/redis-stream-coordinator/rsc/coordinator/internal/config"
)

// The exit codes.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2
)

// App is what a command has of the world.
type App struct {
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
	// Environ are the environment variables, as os.Environ gives them.
	Environ []string
	// Version is shown by `rsc version`.
	Version string
	// onLogger, if set, is told the logger that a command makes.
	onLogger func(*slog.Logger)
}

// Main runs the command line of this process and returns its exit code. The
// first SIGINT or SIGTERM ends the command in an orderly way, a second one ends
// the process.
func Main(version string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	// A reader that went away is then an error of the write, and not the end of
	// the process in the middle of something. (Ignored, the signal would also be
	// ignored by the commands that are run.)
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	app := App{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Environ: os.Environ(), Version: version}
	app.onLogger = redis.SetLibraryLogger // it counts for the whole process
	return app.Run(ctx, os.Args[1:])
}

// Run runs one command line and returns its exit code; it tells Stderr what is
// wrong.
func (a App) Run(ctx context.Context, args []string) int {
	root := newRoot(a)
	root.SetArgs(append([]string{}, args...)) // nil stands for those of the process
	root.SetIn(a.Stdin)
	root.SetOut(a.Stdout)
	root.SetErr(a.Stderr)
	command, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	if errors.Is(err, errTold) {
		return exitFailure
	}
	var usage *usageError
	if !errors.As(err, &usage) {
		fmt.Fprintf(a.Stderr, "%s: %v\n", command.CommandPath(), err)
		return exitFailure
	}
	fmt.Fprintf(a.Stderr, "%s: %v\n", command.CommandPath(), err)
	if !usage.settings {
		fmt.Fprintf(a.Stderr, "%s --help shows how it is used\n", command.CommandPath())
	}
	return exitUsage
}

// usageError is a command line, or settings, that cannot be carried out.
type usageError struct {
	err error
	// settings is set when the command line itself is well formed.
	settings bool
}

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error {
	return &usageError{err: fmt.Errorf(format, args...)}
}

// getenv returns an environment variable, or fallback when it is not set or
// empty.
func (a App) getenv(name, fallback string) string {
	for _, one := range a.Environ {
		if len(one) > len(name) && one[:len(name)] == name && one[len(name)] == '=' && one[len(name)+1:] != "" {
			return one[len(name)+1:]
		}
	}
	return fallback
}

// isTerminal reports whether a stream is a terminal somebody looks at.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}

// newLogger logs to Stderr as the settings say.
func (a App) newLogger(settings config.Log) (*slog.Logger, error) {
	logger, _, err := a.newLevelledLogger(settings)
	return logger, err
}

// newLevelledLogger is newLogger with the level, which can be changed.
func (a App) newLevelledLogger(settings config.Log) (*slog.Logger, *slog.LevelVar, error) {
	level := new(slog.LevelVar)
	if err := level.UnmarshalText([]byte(settings.Level)); err != nil {
		return nil, nil, usagef("log level: %w", err)
	}
	logger := slog.New(a.logHandler(settings.Format, level))
	if a.onLogger != nil {
		a.onLogger(logger)
	}
	return logger, level, nil
}

// logHandler makes text, in colour on a terminal, or JSON.
func (a App) logHandler(format string, level slog.Leveler) slog.Handler {
	terminal := isTerminal(a.Stderr)
	if format == "text" || format == "auto" && terminal {
		noColor := !terminal || a.getenv("NO_COLOR", "") != ""
		return tint.NewTextHandler(a.Stderr, &tint.Options{Level: level, TimeFormat: time.TimeOnly + ".000", NoColor: noColor})
	}
	return slog.NewJSONHandler(a.Stderr, &slog.HandlerOptions{Level: level, ReplaceAttr: durationAsText})
}

// durationAsText writes a duration with its unit: JSON would make it a number of
// nanoseconds.
func durationAsText(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}
