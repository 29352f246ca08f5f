package producer

import (
	"context"
)

// Send takes m, has it stored in the background, and returns its future. It
// returns at once unless Config.MaxBufferedMessages or MaxBufferedBytes are
// reached: then it waits for room as long as ctx allows. With a ctx that has ended
// nothing is taken; what was taken is on its way whatever becomes of ctx.
//
// Messages of one key are stored in the order in which Send took them. The package
// comment says what becomes of those behind one that fails. Neither Payload nor
// Fields of m may be changed before the future is done.
//
// Errors: a *PublishError with the Outcome NotApplied: m was not taken, and
// nothing behind it is affected. ErrCanceled means that ctx ended first,
// ErrEarlierFailed that an earlier message of its key has failed at this moment.
func (p *Producer) Send(ctx context.Context, m Message) (*Future, error) {
	return p.take(ctx, m, nil, true)
}

// TrySend is Send that does not wait for room: without any, its error is
// ErrBufferFull. Nothing is done with ctx but to hand it to Config.TraceParent.
func (p *Producer) TrySend(ctx context.Context, m Message) (*Future, error) {
	return p.take(ctx, m, nil, false)
}

// SendFunc is Send with a function that is called with the outcome, in place of a
// future; nil where nobody wants to know. The calls for messages of one key come in
// the order of the messages. done runs on a goroutine that sends messages: it
// must not take long, and must neither wait for room (it may use TrySend) nor for
// a future, Flush or Close.
//
// Errors: those of Send. done is then not called.
func (p *Producer) SendFunc(ctx context.Context, m Message, done func(Result)) error {
	_, err := p.take(ctx, m, done, true)
	return err
}

// Flush returns when everything that Send took before the call has its outcome,
// and the functions of SendFunc were called. What is taken meanwhile is not waited
// for.
//
// Errors: the cause of ctx when that ended first. What became of the messages
// stands in their futures.
func (p *Producer) Flush(ctx context.Context) error { return p.sender.flush(ctx) }

func (p *Producer) take(ctx context.Context, m Message, done func(Result), wait bool) (*Future, error) {
	f := &Future{msg: m, callback: done}
	e := &f.entry
	e.msg, e.future = &f.msg, f
	p.prepare(ctx, e)
	if err := e.msg.check(&p.cfg, e.size); err != nil {
		return nil, err
	}
	select {
	case <-p.closing:
		return nil, ErrClosed
	default:
	}
	room := p.sender.room
	switch {
	case wait:
		if ctx.Err() != nil {
			return nil, ErrCanceled.with("the context had ended before the message was taken").because(context.Cause(ctx))
		}
		if err := room.take(ctx, p.closing, e.size); err != nil {
			if err == ErrClosed { //nolint:errorlint // not a cause that the caller made
				return nil, ErrClosed
			}
			return nil, ErrCanceled.with("the context ended while the message waited for room in the buffer: more is sent than Redis takes").because(err)
		}
	case !room.tryTake(e.size):
		return nil, ErrBufferFull
	}
	if err := p.sender.accept(e); err != nil {
		room.free(1, e.size)
		return nil, err
	}
	return f, nil
}
