package cli

import (
	"time"

	"github.com/schollz/progressbar/v3"
)

// progress shows how far a command is.
type progress interface {
	// advance says that lines more are done, and bytes of the input altogether.
	advance(lines, bytes int64)
	// clear makes room for a line of text.
	clear()
	// end removes it.
	end()
}

// newProgress shows a bar on a terminal and nothing elsewhere; size is that of
// the input, -1 when it is not known.
func (a App) newProgress(title string, size int64) progress {
	if !isTerminal(a.Stderr) {
		return noProgress{}
	}
	options := []progressbar.Option{
		progressbar.OptionSetWriter(a.Stderr),
		progressbar.OptionSetDescription(title),
		progressbar.OptionThrottle(100 * time.Millisecond),
		progressbar.OptionClearOnFinish(),
		progressbar.OptionSetPredictTime(size >= 0),
	}
	if size >= 0 {
		options = append(options, progressbar.OptionShowBytes(true))
	} else {
		options = append(options, progressbar.OptionShowIts(), progressbar.OptionShowCount(), progressbar.OptionSetItsString("lines"))
	}
	return &bar{bar: progressbar.NewOptions64(size, options...), sized: size >= 0}
}

type noProgress struct{}

func (noProgress) advance(int64, int64) {}
func (noProgress) clear()               {}
func (noProgress) end()                 {}

// bar is a progress bar. What it fails with is not worth ending a command for:
// the terminal is gone, and the command will notice by itself.
type bar struct {
	bar   *progressbar.ProgressBar
	sized bool
}

func (b *bar) advance(lines, bytes int64) {
	if b.sized {
		_ = b.bar.Set64(bytes)
		return
	}
	_ = b.bar.Add64(lines)
}

func (b *bar) clear() { _ = b.bar.Clear() }
func (b *bar) end()   { _ = b.bar.Clear() }
