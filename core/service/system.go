package service

import (
	"crypto/rand"
	"encoding/hex"
	"time"
)

// systemClock is the machine's clock. The monotonic part counts from the start
// of the process.
type systemClock struct{ start time.Time }

func (c systemClock) Wall() time.Time     { return time.Now() }
func (c systemClock) Mono() time.Duration { return time.Since(c.start) }

// randomIDs draws 96 random bits; two are never the same.
type randomIDs struct{}

func (randomIDs) NewID() string {
	var b [12]byte
	// Read never fails (crypto/rand, since Go 1.24).
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}
