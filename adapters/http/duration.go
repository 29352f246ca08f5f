package httpapi

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// isoDuration is a duration in the ISO-8601 form of hours, minutes and seconds,
// such as PT1M30S or PT0.3S.
type isoDuration time.Duration

// MarshalText writes the ISO-8601 form.
func (d isoDuration) MarshalText() ([]byte, error) {
	rest := time.Duration(d)
	if rest == 0 {
		return []byte("PT0S"), nil
	}
	if rest < 0 {
		return nil, fmt.Errorf("duration %s is negative", rest)
	}
	var b strings.Builder
	b.WriteString("PT")
	if hours := rest / time.Hour; hours > 0 {
		fmt.Fprintf(&b, "%dH", hours)
	}
	if minutes := rest % time.Hour / time.Minute; minutes > 0 {
		fmt.Fprintf(&b, "%dM", minutes)
	}
	if seconds := rest % time.Minute; seconds > 0 {
		b.WriteString(strconv.FormatFloat(seconds.Seconds(), 'f', -1, 64))
		b.WriteString("S")
	}
	return []byte(b.String()), nil
}
