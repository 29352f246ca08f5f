package demo

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// display tells people what happens: on a terminal lines that scroll, with a
// picture below them that is drawn anew again and again; elsewhere lines alone.
type display struct {
	out   io.Writer
	began time.Time
	// size is that of the terminal, nil elsewhere.
	size func() (columns, rows int)
	// picture draws the picture, line by line; status is the same as one line.
	picture func() []string
	status  func() string

	mu sync.Mutex
	// drawn is how many lines of the screen the picture takes.
	drawn int
}

const (
	frameEvery  = 100 * time.Millisecond
	statusEvery = time.Second
	// What a terminal is taken for that does not tell its size.
	usualColumns, usualRows = 80, 24
)

// say tells one thing that happened.
func (d *display) say(format string, args ...any) {
	line := fmt.Sprintf("%7.2fs  ", time.Since(d.began).Seconds()) + fmt.Sprintf(format, args...)
	d.print(line)
}

// print writes a line above the picture.
func (d *display) print(line string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var b strings.Builder
	d.erase(&b)
	b.WriteString(line + "\n")
	d.write(b.String())
}

// run draws the picture until ctx ends, or tells the status now and then.
func (d *display) run(ctx context.Context) {
	every := statusEvery
	if d.size != nil {
		every = frameEvery
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	d.status() // from here on it compares
	for {
		select {
		case <-ctx.Done():
			d.leave()
			return
		case <-tick.C:
		}
		if d.size == nil {
			d.say("%s", d.status())
			continue
		}
		d.draw()
	}
}

// draw draws the picture over the last one.
func (d *display) draw() {
	lines := d.picture()
	columns, rows := d.size()
	if columns <= 0 || rows <= 0 {
		columns, rows = usualColumns, usualRows
	}
	lines = lines[:min(len(lines), rows-1)]
	d.mu.Lock()
	defer d.mu.Unlock()
	var b strings.Builder
	d.erase(&b)
	for _, line := range lines {
		b.WriteString(cut(line, columns-1) + "\n")
	}
	d.drawn = len(lines)
	d.write(b.String())
}

// leave draws the picture a last time and leaves it where it is.
func (d *display) leave() {
	if d.size == nil {
		return
	}
	d.draw()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.drawn = 0
}

// erase takes the picture off the screen; the next text stands in its place.
func (d *display) erase(b *strings.Builder) {
	if d.drawn > 0 {
		fmt.Fprintf(b, "\x1b[%dA\x1b[J", d.drawn)
		d.drawn = 0
	}
}

// write writes for people. An output that breaks ends nothing: the outcome is in
// the exit code too.
func (d *display) write(text string) { _, _ = io.WriteString(d.out, text) }

// cut keeps a line within the terminal: a line that wraps would spoil the next
// picture.
func cut(line string, columns int) string {
	if columns < 1 {
		return ""
	}
	n := 0
	for i := range line {
		if n == columns {
			return line[:i]
		}
		n++
	}
	return line
}
