// Command rsc is the coordinator of sharded Redis Streams, and the tools that go
// with it.
package main

import (
	"os"

	"github.com/redis-stream-coordinator/rsc/coordinator/internal/cli"
)

// version is set by the build; without it the module's version is shown.
var version string

func main() { os.Exit(cli.Main(version)) }
