package blackbox

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/e2e/faultkit"
)

const programTimeout = 2 * time.Minute

// program matches the whole programs of a page.
var program = regexp.MustCompile("(?s)```go\n(package main\n.*?)```\n")

// writeProgram writes the one that stands at a place among the programs of a
// page to a folder of its own.
func writeProgram(t *testing.T, folder, page string, at int, replace map[string]string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		t.Fatal(err)
	}
	found := program.FindAllSubmatch(text, -1)
	if len(found) <= at {
		t.Fatalf("%s has %d programs, number %d is wanted", page, len(found), at+1)
	}
	source := string(found[at][1])
	for page, here := range replace {
		source = strings.ReplaceAll(source, page, here)
	}
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "main.go"), []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
}

// The quick start of README.md, word for word: its commands are run in order,
// and what its one program publishes the other one gets. The programs on the
// modules' own pages do the same.
func TestQuickStart(t *testing.T) {
	need(t, "bash", "curl", "redis-server")
	repository, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	redis := startRedis(t, faultkit.Options{})
	c := startCoordinator(t, "--redis", redis.url)
	replace := map[string]string{
		"127.0.0.1:8080": c.Addr,
		"127.0.0.1:6379": strings.TrimPrefix(redis.url, "redis://"),
		"../rsc/":        repository + string(filepath.Separator),
	}
	folder := t.TempDir()
	writeProgram(t, filepath.Join(folder, "produce"), "README.md", 0, replace)
	writeProgram(t, filepath.Join(folder, "consume"), "README.md", 1, replace)
	writeProgram(t, filepath.Join(folder, "producer"), "producer/README.md", 0, replace)
	writeProgram(t, filepath.Join(folder, "consumer"), "consumer/README.md", 0, replace)
	writeProgram(t, filepath.Join(folder, "core"), "core/README.md", 0, nil)

	const consume = "go run ./consume"
	p := readPage(t, "README.md")
	p.check(session{
		prelude: "unset GOWORK GOFLAGS; cd '" + folder + "'",
		replace: replace,
		quiet:   true, // the go command tells what it does
		apart: func(command string) bool {
			// What builds and runs the coordinator, and what does not end.
			return strings.HasPrefix(command, "make ") || strings.HasPrefix(command, "bin/rsc ") || command == consume+"\n"
		},
	})

	// Outside the repository, so it is the workspace of the page that counts.
	build := exec.CommandContext(t.Context(), "go", "build", "-o", "bin"+string(filepath.Separator), "./consume", "./producer", "./consumer", "./core")
	build.Dir = folder
	build.Env = append(os.Environ(), "GOWORK=", "GOFLAGS=")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the programs of the pages: %v\n%s", err, out)
	}
	want := ""
	for _, one := range p.steps() {
		if one.command == consume+"\n" {
			want = one.output
		}
	}
	if want == "" {
		t.Fatalf("README.md does not say what %q prints", consume)
	}
	run := func(name string) (*faultkit.Process, *os.File) {
		stdout := newFile(t, name)
		return faultkit.Command{Path: filepath.Join(folder, "bin", name), Stdout: stdout}.Start(t, name), stdout
	}
	expect := func(name, text string) {
		t.Helper()
		running, stdout := run(name)
		faultkit.Eventually(t, programTimeout, name+" prints "+text, func() bool { return strings.Contains(contents(t, stdout), text) })
		running.Signal(syscall.SIGINT)
		if code := running.Wait(programTimeout); code != 0 {
			t.Errorf("%s was interrupted and exited with %d", name, code)
		}
	}
	expect("consume", want)
	for name, begins := range map[string]string{"producer": "stored as ", "core": "OK 2 shards\n"} {
		running, stdout := run(name)
		if code := running.Wait(programTimeout); code != 0 || !strings.HasPrefix(contents(t, stdout), begins) {
			t.Errorf("the program of %s/README.md exited with %d and printed %q", name, code, contents(t, stdout))
		}
	}
	expect("consumer", "customer-7")
}
