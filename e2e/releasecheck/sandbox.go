package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// sandbox runs the go command as somebody would who never saw the repository:
// no workspace, a module cache of its own, our modules from the packed proxy
// only.
type sandbox struct {
	dir string
	env []string
	out io.Writer
}

// newSandbox prepares one below dir. upstream is the GOPROXY list that modules
// of others come from.
func newSandbox(dir, proxy, upstream string, packed []packedModule, out io.Writer) (*sandbox, error) {
	for _, folder := range []string{"bin", "mod"} {
		if err := os.MkdirAll(filepath.Join(dir, folder), 0o750); err != nil {
			return nil, fmt.Errorf("prepare the sandbox: %w", err)
		}
	}
	var ours []string
	for _, m := range packed {
		ours = append(ours, m.Path)
	}
	if others := os.Getenv("GONOSUMDB"); others != "" {
		ours = append(ours, others)
	}
	return &sandbox{
		dir: dir,
		out: out,
		env: append(os.Environ(),
			"GOWORK=off",
			// Reads go.mod as it is and writes it, like the commands that users type;
			// -trimpath lets the build cache serve us although the module cache is
			// elsewhere; -modcacherw lets us delete that cache.
			"GOFLAGS=-mod=mod -trimpath -modcacherw",
			"GOPROXY="+proxyURL(proxy)+","+upstream,
			"GONOPROXY=none",
			"GOPRIVATE=",
			// The checksum database cannot know what is not published.
			"GONOSUMDB="+strings.Join(ours, ","),
			"GOMODCACHE="+filepath.Join(dir, "mod"),
			"GOBIN="+filepath.Join(dir, "bin"),
		),
	}, nil
}

// upstreamProxies returns the GOPROXY list for modules of others: first what the
// user's module cache has downloaded already, then what the user has configured.
// Where there are proxies, direct is left out: a module of ours that is not
// packed must be missing, not be looked for at its home.
func upstreamProxies(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOMODCACHE", "GOPROXY").Output()
	if err != nil {
		return "", fmt.Errorf("ask go for its settings: %w", err)
	}
	cache, configured, _ := strings.Cut(strings.TrimRight(string(out), "\n"), "\n")
	if trimmed := strings.TrimRight(strings.TrimSuffix(configured, "direct"), ",|"); trimmed != "" {
		configured = trimmed
	}
	return proxyURL(filepath.Join(cache, "cache", "download")) + "," + configured, nil
}

func proxyURL(dir string) string {
	slashed := filepath.ToSlash(dir)
	if !strings.HasPrefix(slashed, "/") {
		slashed = "/" + slashed // a drive letter
	}
	return "file://" + slashed
}

// run executes a command in folder, below the sandbox, says so and returns what
// the command printed. When it fails that is part of the error.
func (s *sandbox) run(ctx context.Context, folder, name string, args ...string) (string, error) {
	start := time.Now()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = filepath.Join(s.dir, folder)
	cmd.Env = s.env
	output, err := cmd.CombinedOutput()
	line := filepath.Base(name) + " " + strings.Join(args, " ")
	if err != nil {
		return "", fmt.Errorf("in a fresh folder, %s: %w\n%s", line, err, output)
	}
	fmt.Fprintf(s.out, "%s: %s (%.1f s)\n", folder, line, time.Since(start).Seconds())
	return string(output), nil
}

// checkRelease does what users do: an application with each of the libraries,
// the command by go install, and for completeness every package of every module.
func (s *sandbox) checkRelease(ctx context.Context, packed []packedModule) error {
	for _, library := range []string{"consumer", "producer"} {
		m, err := find(packed, library)
		if err != nil {
			return err
		}
		if err := s.useLibrary(ctx, m); err != nil {
			return fmt.Errorf("an application that uses %s: %w", library, err)
		}
	}
	coordinator, err := find(packed, "coordinator")
	if err != nil {
		return err
	}
	if err := s.installCommand(ctx, coordinator, "cmd/rsc"); err != nil {
		return fmt.Errorf("install the command: %w", err)
	}
	if err := s.buildAll(ctx, packed); err != nil {
		return fmt.Errorf("build every package: %w", err)
	}
	return nil
}

// find returns the packed module whose path ends with the folder.
func find(packed []packedModule, folder string) (packedModule, error) {
	i := slices.IndexFunc(packed, func(m packedModule) bool { return strings.HasSuffix(m.Path, "/"+folder) })
	if i < 0 {
		return packedModule{}, fmt.Errorf("no module %s was packed: is it in go.work?", folder)
	}
	return packed[i], nil
}

// start makes a module of its own with a main program that imports the paths.
func (s *sandbox) start(ctx context.Context, folder string, imports ...string) error {
	dir := filepath.Join(s.dir, folder)
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	var program strings.Builder
	program.WriteString("package main\n\n")
	for _, path := range imports {
		fmt.Fprintf(&program, "import _ %q\n", path)
	}
	program.WriteString("\nfunc main() {}\n")
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(program.String()), 0o600); err != nil {
		return err
	}
	_, err := s.run(ctx, folder, "go", "mod", "init", "example.com/"+folder)
	return err
}

// useLibrary builds a fresh application on the module. It also tidies it, which
// makes the go command load the module's tests and what they import.
func (s *sandbox) useLibrary(ctx context.Context, m packedModule) error {
	folder := "uses-" + filepath.Base(m.Path)
	if err := s.start(ctx, folder, m.Path); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"get", m.String()},
		{"build", "./..."},
		{"mod", "tidy"},
		{"build", "./..."},
	} {
		if _, err := s.run(ctx, folder, "go", args...); err != nil {
			return err
		}
	}
	return nil
}

// installCommand installs the program below the module as a user does, outside of
// any module, and asks it for its version: whoever reports a defect has to be able
// to name it, however the program was built.
func (s *sandbox) installCommand(ctx context.Context, m packedModule, below string) error {
	if _, err := s.run(ctx, "bin", "go", "install", m.Path+"/"+below+"@"+m.Version.Version); err != nil {
		return err
	}
	answer, err := s.run(ctx, "bin", filepath.Join(s.dir, "bin", filepath.Base(below)), "--version")
	if err != nil {
		return err
	}
	if !strings.Contains(answer, m.Version.Version) {
		return fmt.Errorf("%s --version says %q, not %s", filepath.Base(below), strings.TrimSpace(answer), m.Version.Version)
	}
	return nil
}

// buildAll builds every package of every module in one program, so that none
// leans on a file that git does not track.
func (s *sandbox) buildAll(ctx context.Context, packed []packedModule) error {
	const folder = "all"
	if err := s.start(ctx, folder); err != nil {
		return err
	}
	get, build := []string{"get"}, []string{"build"}
	for _, m := range packed {
		get = append(get, m.String())
		build = append(build, m.Path+"/...")
	}
	if _, err := s.run(ctx, folder, "go", get...); err != nil {
		return err
	}
	_, err := s.run(ctx, folder, "go", build...)
	return err
}
