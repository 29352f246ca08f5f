package cli

import (
	"fmt"

	"github.com/spf13/cobra"
)

// commands are the commands of rsc, in the order in which help shows them.
var commands = []func(App) *cobra.Command{
	newServer,
	newHealth,
	newStreams,
	newGroups,
	newMembers,
	newExplain,
	newDrain,
	newRepair,
	newScale,
	newRollback,
	newMigrations,
	newIgnoreGroup,
	newGiveUp,
	newProduce,
	newConsume,
	newDLQ,
	newBench,
	newDemo,
	newVersion,
	newDemoConsumer,
	newDemoCoordinator,
	newDemoRedis,
}

// The order of commands says something; it is a setting of the whole process.
func init() { cobra.EnableCommandSorting = false }

func newRoot(a App) *cobra.Command {
	root := &cobra.Command{
		Use:   "rsc",
		Short: "Redis Stream Coordinator: sharded Redis Streams, one reader per shard",
		Long: "rsc runs the coordinator of sharded Redis Streams, and the tools that go with it.\n" +
			"A stream is sharded into Redis keys orders:0 … orders:N-1; the coordinator decides\n" +
			"which consumer reads which shard.",
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			if c.Flags().Changed("version") {
				_, err := fmt.Fprint(a.Stdout, a.versionLine())
				return err
			}
			return c.Help()
		},
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
	}
	// Not cobra's own flag: its template would bring text/template into the program,
	// for whose sake the linker keeps every method of every type, a third of it all.
	root.Flags().Bool("version", false, "print the version")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &usageError{err: err} })
	for _, command := range commands {
		root.AddCommand(command(a))
	}
	return root
}

// noArguments refuses whatever is no flag.
func noArguments(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if c.HasSubCommands() {
		hint := ""
		if near := c.SuggestionsFor(args[0]); len(near) > 0 {
			hint = fmt.Sprintf(", did you mean %s?", near[0])
		}
		return usagef("there is no command %q%s", args[0], hint)
	}
	return usagef("takes no argument, got %q", args[0])
}
