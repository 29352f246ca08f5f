package config

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"
)

// parseDuration reads Go's form (1m30s), and days in front of it (7d, 1d12h).
func parseDuration(text string) (time.Duration, error) {
	days, rest, found := strings.Cut(text, "d")
	if !found {
		days, rest = "0", text
	}
	n, err := strconv.Atoi(days)
	if err != nil || n < 0 || n > math.MaxInt64/int(24*time.Hour) {
		return 0, errNoDuration
	}
	total := time.Duration(n) * 24 * time.Hour
	if rest == "" && found {
		return total, nil
	}
	d, err := time.ParseDuration(rest)
	if err != nil || found && d < 0 || total > math.MaxInt64-max(d, 0) {
		return 0, errNoDuration
	}
	return total + d, nil
}

var errNoDuration = errors.New("must be a duration with a unit, such as 500ms, 3s, 1m30s or 7d")

// formatDuration writes a duration in Go's form without zeros at its end, whole days as
// days.
func formatDuration(d time.Duration) string {
	const day = 24 * time.Hour
	if d != 0 && d%day == 0 {
		return strconv.FormatInt(int64(d/day), 10) + "d"
	}
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
