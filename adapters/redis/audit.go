package redis

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/redis-stream-coordinator/rsc/adapters/redis/internal/command"
	"github.com/redis-stream-coordinator/rsc/core/port"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// maxAuditing is how many entries are written at a time, and maxAuditingRefused how many
// others of attempts that were refused. Everybody can make such attempts: they must not
// take the connections of the store, nor hold up the entries of those who may.
const (
	maxAuditing        = 4
	maxAuditingRefused = 2
)

// Audit is a port.Audit in Redis; get it from Client.Audit. It keeps a list of JSON
// texts for each group and for each stream, and one for the attempts that were refused
// for who made them, the newest last and at most Config.AuditEntries in each.
type Audit struct {
	cmd  *command.Client
	keys layout
	most int
	// slots and refusedSlots have room for those that write.
	slots, refusedSlots chan struct{}
}

var _ port.Audit = (*Audit)(nil)

// Audit returns the audit under the configured prefix.
func (c *Client) Audit() *Audit {
	return &Audit{
		cmd: c.cmd, keys: layout{prefix: c.cfg.KeyPrefix}, most: c.cfg.AuditEntries,
		slots: make(chan struct{}, maxAuditing), refusedSlots: make(chan struct{}, maxAuditingRefused),
	}
}

// Record implements port.Audit. An entry whose writing was not answered may be there.
func (a *Audit) Record(ctx context.Context, e port.AuditEntry) error {
	text, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("encode an audit entry: %w", err)
	}
	slots := a.slots
	if e.Refused() {
		slots = a.refusedSlots
	}
	select {
	case slots <- struct{}{}:
		defer func() { <-slots }()
	case <-ctx.Done():
		return fmt.Errorf("write an audit entry: others were written all the time: %w", context.Cause(ctx))
	}
	if err := a.cmd.AppendBounded(ctx, a.list(&e), string(text), a.most); err != nil {
		return fmt.Errorf("write an audit entry: %w", err)
	}
	return nil
}

// list returns the key of the list that an entry belongs to. What anybody may send,
// under any name, shares one: it makes no keys, and displaces nothing but its like.
func (a *Audit) list(e *port.AuditEntry) string {
	switch {
	case e.Refused() || protocol.ValidatePrefix("", e.StreamPrefix) != nil:
		return a.keys.refusedAudit()
	case e.ConsumerGroup == "":
		return a.keys.streamAudit(e.StreamPrefix)
	case protocol.ValidateName("", e.ConsumerGroup) != nil:
		return a.keys.refusedAudit()
	}
	return a.keys.groupAudit(port.GroupKey{Stream: e.StreamPrefix, Group: e.ConsumerGroup})
}
