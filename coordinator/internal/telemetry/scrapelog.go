package telemetry

import (
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// scrapeLogPause lies between two lines about scrapes. Where a scraper has gone away in
// the middle of an answer, each of hundreds of series is one failure.
const scrapeLogPause = 10 * time.Second

// scrapeLog tells of what goes wrong with scrapes, one line at a time. It is a
// promhttp.Logger.
type scrapeLog struct {
	log *slog.Logger
	now func() time.Time

	mu   sync.Mutex
	last time.Time
	left int
}

// Println logs a failure, or counts it for the next line.
func (l *scrapeLog) Println(v ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	if !l.last.IsZero() && now.Sub(l.last) < scrapeLogPause {
		l.left++
		return
	}
	l.log.Warn("a scrape was not answered as it should be", "err", fmt.Sprint(v...), "not_logged_before", l.left)
	l.last, l.left = now, 0
}
