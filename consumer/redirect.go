package consumer

import (
	"context"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"
)

// maxRedirects is how many redirects in a row are followed without a pause. A
// slot that is handed over costs two; more are servers that disagree.
const maxRedirects = 4

// target is where a redirect points. The zero target is wherever the map of the
// cluster says that the key lies.
type target struct {
	addr string
	// ask: the slot is on its way to addr, and its owner no longer has the key.
	ask bool
}

// redirected returns where err sends the reader, if it is a redirect of a server
// that was reached at from. Neither kind of redirect has executed the command.
func redirected(err error, from string) (target, bool) {
	if addr, ok := redis.IsMovedError(err); ok {
		return target{addr: completeAddr(addr, from)}, true
	}
	if addr, ok := redis.IsAskError(err); ok {
		return target{addr: completeAddr(addr, from), ask: true}, true
	}
	return target{}, false
}

// completeAddr fills in what a redirect leaves out: a node that does not know its
// own address names the port only, and means the host that it was reached at.
func completeAddr(addr, from string) string {
	colon := strings.LastIndexByte(addr, ':')
	if colon < 0 {
		return addr
	}
	// IPv6 addresses come without brackets.
	host, port := strings.Trim(addr[:colon], "[]"), addr[colon+1:]
	if host == "" || host == "?" {
		known, _, err := net.SplitHostPort(from)
		if err != nil {
			return addr
		}
		host = known
	}
	return net.JoinHostPort(host, port)
}

// asks is the hook of a connection to a server that a slot is on its way to: it
// serves keys of that slot only to who says ASKING before each command. The
// second goes out when the first was answered; nothing else travels on the
// connection in between.
type asks struct{}

// DialHook changes nothing.
func (asks) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook sends ASKING before a command that has a key.
func (asks) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if hasKey(cmd) {
			if err := next(ctx, asking(ctx)); err != nil {
				cmd.SetErr(err)
				return err
			}
		}
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook sends ASKING before every command of a pipeline.
func (asks) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		all := make([]redis.Cmder, 0, 2*len(cmds))
		for _, cmd := range cmds {
			if hasKey(cmd) {
				all = append(all, asking(ctx))
			}
			all = append(all, cmd)
		}
		return next(ctx, all)
	}
}

func asking(ctx context.Context) redis.Cmder { return redis.NewStatusCmd(ctx, "asking") }

// hasKey tells the commands of a reader from those that set the connection up,
// before which nothing else may be sent.
func hasKey(cmd redis.Cmder) bool {
	name := strings.ToLower(cmd.Name())
	return strings.HasPrefix(name, "x") || name == "exists" || strings.HasPrefix(name, "eval")
}
