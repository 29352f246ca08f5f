package httpapi

import (
	"math"
	"net/http"
	"sync"
	"time"

	"github.com/gin-gonic/gin"
)

const (
	// limitWindow is what the limit counts in. It begins with the first attempt.
	limitWindow = time.Minute
	// maxWindows bounds the windows that are open at a time.
	maxWindows = 10_000
)

// limiter counts the attempts of each user to change each thing.
type limiter struct {
	mu sync.Mutex
	// windows are at most maxWindows.
	windows map[limited]*window
}

// limited is who changes what; group is empty for a stream itself.
type limited struct{ username, stream, group string }

type window struct {
	begun    time.Time
	attempts int
}

func newLimiter() *limiter { return &limiter{windows: make(map[limited]*window)} }

// take counts an attempt and returns how long to wait if it is one too many, else 0.
func (l *limiter) take(what limited, limit int, now time.Time) (wait time.Duration) {
	if limit <= 0 {
		return limitWindow
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.windows[what]
	if w == nil {
		l.makeRoom(now)
		w = &window{begun: now}
		l.windows[what] = w
	}
	if now.Sub(w.begun) >= limitWindow {
		*w = window{begun: now}
	}
	if w.attempts >= limit {
		return limitWindow - now.Sub(w.begun)
	}
	w.attempts++
	return 0
}

// makeRoom closes a window if there are too many: of some, the one that began first.
func (l *limiter) makeRoom(now time.Time) {
	if len(l.windows) < maxWindows {
		return
	}
	var oldest limited
	longest, seen := time.Duration(math.MinInt64), 0
	for what, w := range l.windows { // in an order that is another one each time
		if age := now.Sub(w.begun); age > longest {
			oldest, longest = what, age
		}
		if seen++; seen == examined {
			break
		}
	}
	delete(l.windows, oldest)
}

// limitMutations refuses changes that come too fast. It runs when it is known who
// asks.
func (a *api) limitMutations(c *gin.Context) {
	limit := a.access.Load().limit
	p := principalOf(c)
	if !limit.Enabled || p == nil {
		return
	}
	what := limited{username: p.username, stream: limitedName(c, "streamPrefix"), group: limitedName(c, "consumerGroup")}
	if wait := a.limiter.take(what, limit.MutationsPerMinute, time.Now()); wait > 0 {
		a.refuse(c, later(wait, "user %q may change the same thing %d times a minute: wait %d s", p.username, limit.MutationsPerMinute, seconds(wait)))
	}
}

// limitedName is a name in the path that takes up no more room than a name may; one
// that is none is refused later.
func limitedName(c *gin.Context, parameter string) string {
	name, err := pathName(c, parameter)
	if err != nil {
		return ""
	}
	return name
}

// changes reports a route that changes something on behalf of an operator.
func (r *route) changes() bool {
	return r.needs == mayWrite && r.method != http.MethodGet
}
