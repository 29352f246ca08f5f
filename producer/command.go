package producer

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

// entry is one message on its way. It serves as an argument of its own command,
// see MarshalBinary, so it must not be copied.
type entry struct {
	index int // in the call
	msg   *Message
	unit  unit
	size  int
	trace string // value of TraceField, empty for none
	// queued is when the call began, or when Send took the message.
	queued time.Time

	shard        int
	key          string // of the shard
	version      int64  // of the routing that chose it
	rerouted     bool   // the routing was asked for again because the key was missing
	redirections int

	mark    []byte // see MarshalBinary
	written bool   // part of the present command may have reached a connection
	doubt   bool   // an earlier attempt had an unknown outcome
	verdict verdict
	id      string
	drops   Drops         // what had to go for it
	err     *PublishError // set when it failed for good

	// The rest is for messages of Send.
	future *Future
	cohort *cohort
}

// unit is what keeps its order: the messages of one partition key, or those for
// one shard that was chosen explicitly.
type unit struct {
	key   string
	shard ShardChoice
}

func unitOf(m *Message) unit {
	if m.Shard.chosen {
		return unit{shard: m.Shard}
	}
	return unit{key: m.Key}
}

var noMkStream = []byte("NOMKSTREAM")

// MarshalBinary makes the entry usable as the argument NOMKSTREAM, or as the first
// argument of the script that stores under a length limit. The client
// asks for the bytes when, and only when, it writes the command to a connection
// it has obtained; that is the line between an attempt that certainly stored
// nothing and one that may have.
func (e *entry) MarshalBinary() ([]byte, error) {
	e.written = true
	return e.mark, nil
}

// rawValue passes a payload as an argument without copying it or its header.
type rawValue []byte

// MarshalBinary returns the bytes themselves.
func (v *rawValue) MarshalBinary() ([]byte, error) { return *v, nil }

// appendArgs appends XADD key NOMKSTREAM * and the fields, or the call of a script
// that does the same under a limit; first says that e is the first of its request.
// Strings go in as pointers, which spares an allocation each.
func (e *entry) appendArgs(args []any, omitKey bool, l *limit, first bool) []any {
	if l == nil {
		e.mark = noMkStream
		args = append(args, "xadd", &e.key, e, "*")
	} else {
		e.mark = l.max
		args = l.appendHead(args, e, first)
	}
	if e.msg.writesKey(omitKey) {
		args = append(args, KeyField, &e.msg.Key)
	}
	if e.msg.Payload != nil {
		args = append(args, PayloadField, (*rawValue)(&e.msg.Payload))
	}
	if e.trace != "" {
		args = append(args, TraceField, &e.trace)
	}
	for i := range e.msg.Fields {
		f := &e.msg.Fields[i]
		args = append(args, &f.Name, &f.Value)
	}
	return args
}

// fail ends e with err.
func (e *entry) fail(err *PublishError) {
	if e.doubt && err.Outcome != Unknown {
		// An earlier attempt may have stored it, whatever this one came to.
		err = ErrOutcomeUnknown.because(err)
	}
	err = err.because(err.Err)
	err.StreamKey = e.key
	e.err = err
}

// result is the outcome of an entry that has come to its end.
func (e *entry) result() Result {
	if e.err != nil {
		return Result{Err: e.err}
	}
	return Result{Receipt: e.receipt()}
}

// receipt is for an entry that was stored.
func (e *entry) receipt() Receipt {
	return Receipt{Shard: e.shard, StreamKey: e.key, ID: e.id, MetadataVersion: e.version, Repeated: e.doubt}
}

// command makes the command that carries e this time.
func (e *entry) command(ctx context.Context, args []any) *redis.StringCmd {
	e.written = false
	return redis.NewStringCmd(ctx, args...)
}

// errNoReply is the cause where the client reports neither an id nor an error.
var errNoReply = errors.New("the Redis client reports no reply")

// take judges the outcome of the command that carried e. whole is the error of
// the pipeline it was part of, if it was. The client's own error of a command does
// not tell everything: when a pipeline breaks, commands that were answered before
// get the error of the break as well, and when no connection could be
// authenticated, commands get no error at all. An id, however, is only ever there
// when the server sent it.
func (e *entry) take(ctx context.Context, cmd *redis.StringCmd, whole error) {
	if e.id = cmd.Val(); e.id != "" {
		e.id, e.drops = splitDrops(e.id)
		e.verdict = verdict{kind: stored}
		return
	}
	err := cmd.Err()
	if err == nil && !e.written {
		err = whole
	}
	if err == nil {
		err = errNoReply
	}
	e.verdict = judge(ctx, err, e.written)
	if e.verdict.kind == uncertain {
		e.doubt = true
	}
}
