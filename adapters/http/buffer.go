package httpapi

import (
	"bytes"
	"sync"
)

// maxKeptBuffer bounds the buffers that are kept for later requests.
const maxKeptBuffer = 64 << 10

// buffers are for bodies on their way in and out. A request that waits for its
// answer holds none.
var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

func takeBuffer() *bytes.Buffer {
	b, _ := buffers.Get().(*bytes.Buffer) // there is nothing else in it
	b.Reset()
	return b
}

func giveBack(b *bytes.Buffer) {
	if b.Cap() <= maxKeptBuffer {
		buffers.Put(b)
	}
}
