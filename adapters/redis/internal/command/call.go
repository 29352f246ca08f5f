package command

import (
	"errors"
	"io"
	"net"
	"regexp"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// call is one command on the key of a stream, with what became of it.
type call struct {
	key  string
	args []any
	// once: it must not be carried out twice, so it is not sent again when its
	// answer is lost.
	once bool
	// needs are the commands inside a script, as rules of an ACL.
	needs string
	// script is what args carry out by its digest, nil for a plain command.
	script *script
	// replicas are to have it before it counts as carried out.
	replicas replicas

	reply any
	err   error

	// from is the address of the server that was asked last.
	from string
	// addr is where a redirect sent it, ask that the slot is still on its way
	// there.
	addr string
	ask  bool
}

// verdict is what to do about a call after an attempt.
type verdict int

const (
	// settled: it was carried out, or it will not be.
	settled verdict = iota
	// redirected: not carried out, the server at addr is to be asked.
	redirected
	// taught: not carried out, the server has to be sent the text of the script.
	taught
	// passing: not carried out, or it may be carried out again, and a while later
	// the answer will be another one.
	passing
)

// passingCodes begin the answers of a server that does not carry a command out
// now: it starts, fails over, moves a slot, or is busy with a script.
var passingCodes = []string{"LOADING", "READONLY", "CLUSTERDOWN", "TRYAGAIN", "MASTERDOWN", "BUSY"}

// judge says what to do about the outcome of an attempt. movable tells that
// another server may take over from the one that was asked.
func (c *call) judge(movable bool) verdict {
	if c.script != nil && redis.HasErrorPrefix(c.err, "NOSCRIPT") {
		c.args[0], c.args[1] = "eval", c.script.text
		return taught
	}
	c.addr, c.ask = "", false
	if c.err == nil || errors.Is(c.err, redis.Nil) || errors.Is(c.err, errFewReplicas) {
		return settled
	}
	if !answered(c.err) {
		if movable && (!c.once || unsent(c.err)) {
			return passing
		}
		return settled
	}
	if addr, moved := redis.IsMovedError(c.err); moved {
		c.addr = completeAddr(addr, c.from)
		return redirected
	}
	if addr, asks := redis.IsAskError(c.err); asks {
		c.addr, c.ask = completeAddr(addr, c.from), true
		return redirected
	}
	if passes(c.err) {
		return passing
	}
	return settled
}

// passes reports whether a server has answered that it cannot carry a command out
// now.
func passes(err error) bool {
	return slices.ContainsFunc(passingCodes, func(code string) bool { return redis.HasErrorPrefix(err, code+" ") })
}

// Unavailable reports whether an error may be gone after a while, without anybody
// changing the settings or the server's: nobody listens, or what does breaks the
// connection off or is not ready.
func Unavailable(err error) bool {
	var network net.Error
	return errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, redis.ErrPoolTimeout) || passes(err)
}

// take keeps the outcome of the command that carried the call. whole is the
// error of the pipeline it was part of: when one breaks, answers that were read
// before get that error too, and when it could not be sent, some get none.
func (c *call) take(cmd *redis.Cmd, whole error) {
	c.reply, c.err = cmd.Result()
	switch {
	case c.reply != nil && !answered(c.err):
		c.err = nil
	case c.reply == nil && c.err == nil:
		c.err = whole
		if whole == nil {
			c.err = redis.Nil
		}
	}
}

var (
	forbiddenCommand = regexp.MustCompile(`permissions? to run the '([^']+)' command`)
	forbiddenKey     = regexp.MustCompile(`permissions? to access (?:a|one of the) key`)
	// inScript is what Redis 7.0 says instead of naming the command.
	inScript = regexp.MustCompile(`executing the script can't run this command`)

	globs = strings.NewReplacer("*", `\*`, "?", `\?`, "[", `\[`, `\`, `\\`)
)

// missingRule is what the user's ACL lacks, if that is what the error says.
func (c *call) missingRule() string {
	text := c.err.Error()
	if m := forbiddenCommand.FindStringSubmatch(text); m != nil {
		return "+" + m[1]
	}
	if inScript.MatchString(text) {
		return c.needs
	}
	if forbiddenKey.MatchString(text) {
		prefix := c.key[:strings.LastIndexByte(c.key, ':')+1]
		if tag := strings.Index(c.key, ":{"); tag >= 0 {
			prefix = c.key[:tag+1] // all keys of a store, not those of one group
		}
		return "~" + globs.Replace(prefix) + "*"
	}
	return ""
}

// unsent reports an error from before anything was sent.
func unsent(err error) bool {
	var network *net.OpError
	return errors.As(err, &network) && network.Op == "dial" || errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, errNoServer)
}

// completeAddr fills in what a redirect may leave out: a server that does not
// know its own address sends none, and means the one that it was reached at.
func completeAddr(addr, reachedAt string) string {
	// An IPv6 address comes without brackets: the port is behind the last colon.
	at := strings.LastIndexByte(addr, ':')
	if at < 0 {
		return addr
	}
	host, port := strings.Trim(addr[:at], "[]"), addr[at+1:]
	if host == "" || host == "?" {
		if reached, _, err := net.SplitHostPort(reachedAt); err == nil {
			host = reached
		}
	}
	return net.JoinHostPort(host, port)
}
