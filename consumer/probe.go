package consumer

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/redis-stream-coordinator/rsc/core/routing"
)

// probe finds out before the member joins whether Redis is one that it can never
// read from: a member that holds shards it cannot read keeps them from others.
// It calls what reading will call, in a form that changes nothing, on the first
// shard. What may pass is not its business.
// Errors: ErrRedisPermission, ErrRedisMode.
func (p *poller) probe(ctx context.Context) error {
	ctx, done := context.WithTimeout(ctx, p.cfg.limits.probe)
	defer done()
	key, group := routing.StreamKey(p.cfg.Stream, 0), p.cfg.Group
	commands := [][]any{
		// Without ids, and with one that is none: refused, but only after the
		// permissions were looked at. Well-formed they would make a consumer.
		{"xreadgroup", "group", group, p.cfg.MemberID, "count", "1", "streams", key},
		{"xclaim", key, group, p.cfg.MemberID, "0", "none"},
		{"xpending", key, group, "-", "+", "1"},
		// 0-0 is no record's id.
		{"xack", key, group, "0-0"},
		{"xinfo", "groups", key},
		{"xinfo", "stream", key},
		{"xrange", key, "-", "+", "count", "1"},
		{"exists", key},
	}
	if p.cfg.DeadLetter.Enabled {
		// Not the id of a record either.
		commands = append(commands, []any{"xadd", p.cfg.Stream + DeadLetterSuffix, "none", DeadLetterError, ""})
	}
	if !p.servers.clustered() {
		commands = append(commands, []any{"cluster", "info"})
	}
	pipe := p.servers.shared.Pipeline()
	cmds := make([]*redis.Cmd, len(commands))
	for i, args := range commands {
		cmds[i] = pipe.Do(ctx, args...)
	}
	_, whole := pipe.Exec(ctx)
	errs := append([]error{whole}, errorsOf(cmds)...)
	if !p.servers.clustered() {
		errs = errs[:len(errs)-1] // reading does without CLUSTER INFO
	}
	var bad []error
	for _, err := range errs {
		if err == nil {
			continue
		}
		refusal := p.servers.diagnose(err, p.cfg.Stream).hopeless(err)
		if refusal != nil && !contains(bad, refusal) {
			bad = append(bad, refusal)
		}
	}
	if !p.servers.clustered() && len(bad) == 0 && ofSeveral(cmds[len(cmds)-1]) {
		bad = append(bad, fault{faultIsCluster, adviceIsCluster}.hopeless(nil))
	}
	return errors.Join(bad...)
}

// ofSeveral reads the answer to CLUSTER INFO: whether other servers hold slots too.
func ofSeveral(info *redis.Cmd) bool {
	text, err := info.Text()
	_, rest, found := strings.Cut(text, "cluster_size:")
	size, _, _ := strings.Cut(rest, "\r")
	n, bad := strconv.Atoi(size)
	return err == nil && found && bad == nil && n > 1
}

func errorsOf(cmds []*redis.Cmd) []error {
	errs := make([]error, len(cmds))
	for i, cmd := range cmds {
		errs[i] = cmd.Err()
	}
	return errs
}

func contains(errs []error, err error) bool {
	for _, e := range errs {
		if strings.EqualFold(e.Error(), err.Error()) {
			return true
		}
	}
	return false
}
