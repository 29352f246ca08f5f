package producer

import (
	"context"
	"fmt"
	"sync"
)

// Future is the outcome of a message that Send has taken. Every future comes to
// its end, by Close at the latest. It is safe for use by many goroutines.
type Future struct {
	entry    entry
	msg      Message
	callback func(Result)

	mu     sync.Mutex
	over   bool
	result Result
	done   chan struct{} // made when somebody asks for it
}

// Done returns a channel that is closed when the outcome is there. Wait then
// returns at once.
func (f *Future) Done() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.done == nil {
		f.done = make(chan struct{})
		if f.over {
			close(f.done)
		}
	}
	return f.done
}

// Wait returns where the message was stored, and waits for it as long as ctx
// allows. An outcome that is there is returned whatever ctx says.
//
// Errors: a *PublishError is the outcome of the message. Any other error means
// that ctx ended first: the message is still on its way, and Wait may be called
// again.
func (f *Future) Wait(ctx context.Context) (Receipt, error) {
	f.mu.Lock()
	over := f.over
	f.mu.Unlock()
	if !over {
		done := f.Done()
		select {
		case <-done:
		default:
			select {
			case <-done:
			case <-ctx.Done():
				return Receipt{}, fmt.Errorf("wait for the outcome of a message that is under way: %w", context.Cause(ctx))
			}
		}
	}
	return f.result.Receipt, f.result.Err
}

// finish makes the outcome known and lets the message go.
func (f *Future) finish() {
	result := f.entry.result()
	f.mu.Lock()
	f.result, f.over = result, true
	if f.done != nil {
		close(f.done)
	}
	f.mu.Unlock()
	f.msg.Payload, f.msg.Fields = nil, nil
}

// call calls the function of SendFunc, after finish.
func (f *Future) call() {
	if f.callback != nil {
		f.callback(f.result)
		f.callback = nil
	}
}
