//go:build race

package dataplane

// raceDetector says that processes take many times the memory that they would.
const raceDetector = true
