// Command releasecheck answers, before anything is tagged, whether users will be
// able to get what the tags promise. It packs each module as a module proxy
// would, from what git tracks and without the replace lines that only this
// repository needs, and lets fresh programs outside the repository get, build
// and install them.
//
// Nothing of it stays: proxy, module cache, programs and binaries live in a
// temporary folder, so the packed versions never reach the user's own cache.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"

	"golang.org/x/mod/modfile"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Stdout, os.Args[1:])
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "releasecheck:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, args []string) (err error) {
	flags := flag.NewFlagSet("releasecheck", flag.ContinueOnError)
	version := flags.String("version", "v0.1.0", "the version that the modules are packed as")
	if err := flags.Parse(args); err != nil {
		return err
	}

	root, err := repositoryRoot(ctx)
	if err != nil {
		return err
	}
	folders, err := publishedFolders(root)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "releasecheck-")
	if err != nil {
		return fmt.Errorf("make a temporary folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()

	proxy := filepath.Join(dir, "proxy")
	packed, err := packAll(ctx, root, folders, *version, proxy)
	if err != nil {
		return err
	}
	for _, m := range packed {
		fmt.Fprintf(out, "packed %s: %d files, %d KiB\n", m, m.files, (m.size+1023)/1024)
	}
	upstream, err := upstreamProxies(ctx)
	if err != nil {
		return err
	}
	box, err := newSandbox(dir, proxy, upstream, packed, out)
	if err != nil {
		return err
	}
	if err := box.checkRelease(ctx, packed); err != nil {
		return err
	}
	fmt.Fprintf(out, "releasecheck: ok, %d modules at %s\n", len(packed), *version)
	return nil
}

// repositoryRoot asks git where the repository begins that holds the current
// folder.
func repositoryRoot(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "git", "rev-parse", "--show-toplevel").Output()
	if err != nil {
		return "", fmt.Errorf("find the repository with git: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// publishedFolders lists the modules of the workspace that get tags: all but
// e2e and what lies below it.
func publishedFolders(root string) ([]string, error) {
	content, err := os.ReadFile(filepath.Join(root, "go.work"))
	if err != nil {
		return nil, fmt.Errorf("read the workspace: %w", err)
	}
	work, err := modfile.ParseWork("go.work", content, nil)
	if err != nil {
		return nil, fmt.Errorf("read the workspace: %w", err)
	}
	var folders []string
	for _, use := range work.Use {
		folder := filepath.ToSlash(filepath.Clean(use.Path))
		if folder != "e2e" && !strings.HasPrefix(folder, "e2e/") {
			folders = append(folders, folder)
		}
	}
	return folders, nil
}
