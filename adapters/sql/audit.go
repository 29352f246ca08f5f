package sql

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/redis-stream-coordinator/rsc/core/port"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// DefaultAuditEntries is how many audit entries are kept in each list.
const DefaultAuditEntries = 1000

// maxAuditing is how many entries are written at a time. Everybody can send requests
// that are refused and audited; they must not take the connections of the store.
const maxAuditing = 4

// The lists of audit entries.
const (
	auditRefused = iota
	auditStream
	auditGroup
)

// Audit is a port.Audit in the database; get it from Store.Audit. It keeps JSON texts in
// one list for each group and for each stream, and in one for the attempts that were
// refused for who made them.
type Audit struct {
	store                  *Store
	most                   int
	insert, oldest, remove string
	// slots has room for those that write.
	slots chan struct{}
}

var _ port.Audit = (*Audit)(nil)

// Audit returns the audit in the same database, of at most so many entries in each list;
// 0 means DefaultAuditEntries.
func (s *Store) Audit(most int) *Audit {
	if most <= 0 {
		most = DefaultAuditEntries
	}
	return &Audit{
		store: s, most: most, slots: make(chan struct{}, maxAuditing),
		insert: s.text("INSERT INTO rsc_audit (kind, stream, grp, entry) VALUES (?, ?, ?, ?)"),
		oldest: s.text("SELECT COALESCE(MIN(id), 0) FROM (SELECT id FROM rsc_audit WHERE kind = ? AND stream = ? AND grp = ? ORDER BY id DESC LIMIT ?) kept"),
		remove: s.text("DELETE FROM rsc_audit WHERE kind = ? AND stream = ? AND grp = ? AND id < ?"),
	}
}

// Record implements port.Audit. An entry whose writing was not answered may be there.
func (a *Audit) Record(ctx context.Context, e port.AuditEntry) error {
	text, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("encode an audit entry: %w", err)
	}
	ctx, done := a.store.bounded(ctx)
	defer done()
	select {
	case a.slots <- struct{}{}:
		defer func() { <-a.slots }()
	case <-ctx.Done():
		return fmt.Errorf("write an audit entry: others were written all the time: %w", context.Cause(ctx))
	}
	list := listOf(&e)
	err = a.store.transact(ctx, true, func(ctx context.Context, t *tx) error {
		if _, err := t.exec(ctx, a.insert, append(list, string(text))...); err != nil {
			return err
		}
		var oldest int64
		if err := t.conn.QueryRowContext(ctx, a.oldest, append(list, a.most)...).Scan(&oldest); err != nil {
			return err
		}
		_, err := t.exec(ctx, a.remove, append(list, oldest)...)
		return err
	})
	return failed(ctx, "write", "an audit entry", err)
}

// listOf says which list an entry belongs to. What anybody may send, under any name,
// shares one: it displaces nothing but its like.
func listOf(e *port.AuditEntry) []any {
	list := func(kind int, stream, group string) []any {
		return []any{kind, []byte(stream), []byte(group)}
	}
	switch {
	case e.Refused() || protocol.ValidatePrefix("", e.StreamPrefix) != nil:
		return list(auditRefused, "", "")
	case e.ConsumerGroup == "":
		return list(auditStream, e.StreamPrefix, "")
	case protocol.ValidateName("", e.ConsumerGroup) != nil:
		return list(auditRefused, "", "")
	}
	return list(auditGroup, e.StreamPrefix, e.ConsumerGroup)
}
