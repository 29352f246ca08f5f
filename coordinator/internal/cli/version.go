package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func newVersion(a App) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  noArguments,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprint(a.Stdout, a.versionLine())
			return err
		},
	}
}

// versionLine is what `rsc version` prints.
func (a App) versionLine() string {
	return fmt.Sprintf("rsc %s %s %s/%s\n", a.version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// version is what the build says, else the version that the module was
// installed as.
func (a App) version() string {
	if a.Version != "" {
		return a.Version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
