package cli

import (
	"fmt"
	"io"
	"time"
)

const (
	// maxSampleRate bounds the made-up orders of a second.
	maxSampleRate = 10_000
	// sampleCustomers is how many customers order something.
	sampleCustomers = 200
	// sampleKeyField is the field of a made-up order that is its key.
	sampleKeyField = "customer"
	// samplePause is the shortest time between two looks at the clock.
	samplePause = 10 * time.Millisecond
)

// sampleOrders is an input of made-up orders, a line each, at an even rate. It
// ends when done is closed. What could not be made in time because nobody read is
// made up for, up to a second of it.
type sampleOrders struct {
	done   <-chan struct{}
	ticker *time.Ticker
	rate   int
	// made counts the orders since begun, number all there were.
	begun        time.Time
	made, number int
	// text is what has been made and not been read.
	text []byte
}

func newSampleOrders(done <-chan struct{}, rate int) *sampleOrders {
	pause := max(time.Second/time.Duration(rate), samplePause)
	return &sampleOrders{done: done, ticker: time.NewTicker(pause), rate: rate, begun: time.Now()}
}

// Read waits for the next orders.
func (s *sampleOrders) Read(p []byte) (int, error) {
	for len(s.text) == 0 {
		select {
		case <-s.done:
			return 0, io.EOF
		case now := <-s.ticker.C:
			s.make(now)
		}
	}
	n := copy(p, s.text)
	s.text = s.text[n:]
	return n, nil
}

// make makes what is due.
func (s *sampleOrders) make(now time.Time) {
	due := int(now.Sub(s.begun).Seconds()*float64(s.rate)) - s.made
	if due > s.rate {
		due = s.rate
		s.begun, s.made = now, -due
	}
	s.made += due
	s.text = s.text[:0]
	for range due {
		s.number++
		// Numbers that look mixed and are the same in every run.
		customer, amount := s.number*7919%sampleCustomers, 5+s.number*104729%495
		s.text = fmt.Appendf(s.text, `{"order":%d,"customer":"customer-%d","amount":%d}`+"\n", s.number, customer, amount)
	}
}

// Close stops the clock.
func (s *sampleOrders) Close() error {
	s.ticker.Stop()
	return nil
}
