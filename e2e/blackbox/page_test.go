package blackbox

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// update rewrites the outputs in the pages, from runs that take as long as the
// pages say.
var update = flag.Bool("update", false, "rewrite the outputs in the documents")

// page is a document whose blocks of commands are carried out. A console block
// shows commands with their outputs:
//
//	```console
//	$ command
//	its output
//	```
//
// and a sh block is one command, on as many lines as it takes, that prints
// nothing.
type page struct {
	t    *testing.T
	path string
	// parts are the document in pieces, from top to bottom.
	parts []part
}

// part is a piece of a page: a block with its fences, or what stands between two
// of them.
type part struct {
	// fence is the line that begins a block, empty between two.
	fence string
	// text is what stands there, steps what that means in a block.
	text  string
	steps []*step
}

// step is a command of a page and what the page says that it prints.
type step struct {
	command, output string
}

// The lines that enclose a block.
const (
	consoleFence = "```console\n"
	shFence      = "```sh\n"
	endFence     = "```\n"
)

func readPage(t *testing.T, path string) *page {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	p := &page{t: t, path: path, parts: []part{{}}}
	for l := range strings.Lines(string(content)) {
		at := &p.parts[len(p.parts)-1]
		switch {
		case at.fence == "" && (l == consoleFence || l == shFence):
			p.parts = append(p.parts, part{fence: l})
		case at.fence != "" && l == endFence:
			p.parts = append(p.parts, part{})
		default:
			at.text += l
		}
	}
	if last := p.parts[len(p.parts)-1]; last.fence != "" {
		t.Fatalf("%s: the last block does not end", path)
	}
	for i := range p.parts {
		switch at := &p.parts[i]; at.fence {
		case consoleFence:
			at.steps = p.console(at.text)
		case shFence:
			at.steps = []*step{{command: at.text}}
		}
	}
	return p
}

// console takes a console block apart.
func (p *page) console(text string) []*step {
	p.t.Helper()
	var steps []*step
	for l := range strings.Lines(text) {
		command, isCommand := strings.CutPrefix(l, "$ ")
		switch {
		case isCommand:
			steps = append(steps, &step{command: command})
		case len(steps) == 0:
			p.t.Fatalf("%s: a console block begins with no command: %q", p.path, l)
		default:
			steps[len(steps)-1].output += l
		}
	}
	return steps
}

// steps returns the commands of the page.
func (p *page) steps() []*step {
	var all []*step
	for _, at := range p.parts {
		all = append(all, at.steps...)
	}
	return all
}

// session is how a page is carried out.
type session struct {
	// prelude is run first, in the same shell.
	prelude string
	// replace turns what the page says into what is so here, such as the address
	// of a server. It is undone in the outputs.
	replace map[string]string
	// apart says that a command is not run in the shell.
	apart func(command string) bool
	// quiet leaves out what commands print to standard error.
	quiet bool
}

// mark stands between the outputs of two commands.
const mark = "== what follows is the output of the next command =="

// check runs all commands of the page in one shell and compares their outputs
// with those on the page, or replaces those with -update.
func (p *page) check(s session) {
	p.t.Helper()
	var script strings.Builder
	fmt.Fprintln(&script, s.prelude)
	var run []*step
	for _, one := range p.steps() {
		if s.apart != nil && s.apart(one.command) {
			continue
		}
		command := one.command
		for page, here := range s.replace {
			command = strings.ReplaceAll(command, page, here)
		}
		fmt.Fprintf(&script, "printf '%%s\\n' '%s'\n%s", mark, command)
		run = append(run, one)
	}
	outputs := p.shell(script.String(), s)
	if len(outputs) != len(run) {
		p.t.Fatalf("%s: %d commands gave %d outputs: %q", p.path, len(run), len(outputs), outputs)
	}
	if *update {
		for i, one := range run {
			one.output = outputs[i]
		}
		p.write()
		return
	}
	var want, got []string
	for i, one := range run {
		want, got = append(want, one.output), append(got, outputs[i])
	}
	want, got = normalise(want), normalise(got)
	for i, one := range run {
		if want[i] != got[i] {
			p.t.Errorf("%s: %sthe page says:\n%sit is:\n%s(-update rewrites the page)", p.path, one.command, want[i], got[i])
		}
	}
}

// shell runs a script and returns what it printed after each mark.
func (p *page) shell(script string, s session) []string {
	p.t.Helper()
	shell := exec.CommandContext(p.t.Context(), "bash", "--noprofile", "--norc")
	shell.Dir, shell.Stdin, shell.WaitDelay = p.t.TempDir(), strings.NewReader(script), time.Minute
	var out, aside bytes.Buffer
	shell.Stdout, shell.Stderr = &out, &out
	if s.quiet {
		shell.Stderr = &aside
	}
	err := shell.Run()
	p.t.Cleanup(func() {
		if p.t.Failed() && aside.Len() > 0 {
			p.t.Logf("standard error of the commands of %s:\n%s", p.path, aside.String())
		}
	})
	if err != nil {
		p.t.Fatalf("%s: the shell says %v:\n%s", p.path, err, out.String())
	}
	text := out.String()
	for page, here := range s.replace {
		text = strings.ReplaceAll(text, here, page)
	}
	before, text, _ := strings.Cut(text, mark+"\n")
	if before != "" {
		p.t.Fatalf("%s: the prelude printed %q", p.path, before)
	}
	return strings.Split(text, mark+"\n")
}

// write writes the page with the outputs of its steps.
func (p *page) write() {
	p.t.Helper()
	var text strings.Builder
	for _, at := range p.parts {
		switch at.fence {
		case "":
			text.WriteString(at.text)
		case shFence:
			text.WriteString(at.fence + at.text + endFence)
		case consoleFence:
			text.WriteString(at.fence)
			for _, one := range at.steps {
				text.WriteString("$ " + one.command + one.output)
			}
			text.WriteString(endFence)
		}
	}
	//nolint:gosec // a page is for everybody
	if err := os.WriteFile(filepath.Join(root, p.path), []byte(text.String()), 0o644); err != nil {
		p.t.Fatal(err)
	}
}

var (
	// epochs, and versions, are counters that begin at a time in milliseconds.
	epochs = regexp.MustCompile(`\b[0-9]{13,16}\b`)
	times  = regexp.MustCompile(`\b[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z`)
	spans  = regexp.MustCompile(`"(heartbeatIntervalMs|rebalanceTimeoutMs|memberLeaseTtlMs)":[0-9]+`)
)

// normalise replaces what differs from run to run. Equal epochs stay equal, and
// different ones different: each is replaced by its rank among all that occur.
func normalise(outputs []string) []string {
	rank := map[string]int{}
	var all []string
	for _, output := range outputs {
		for _, epoch := range epochs.FindAllString(output, -1) {
			if _, known := rank[epoch]; !known {
				rank[epoch], all = 0, append(all, epoch)
			}
		}
	}
	slices.Sort(all) // all have as many digits
	for i, epoch := range all {
		rank[epoch] = i + 1
	}
	plain := make([]string, len(outputs))
	for i, output := range outputs {
		output = epochs.ReplaceAllStringFunc(output, func(epoch string) string { return fmt.Sprintf("epoch-%d", rank[epoch]) })
		output = times.ReplaceAllString(output, "time")
		plain[i] = spans.ReplaceAllString(output, `"$1":ms`)
	}
	return plain
}
