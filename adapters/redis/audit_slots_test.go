package redis

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/redis-stream-coordinator/rsc/core/port"
)

// TestRefusedDoNotHoldUpOthers: while as many entries of refused attempts are written as
// may be, those of others are written, and the reverse.
func TestRefusedDoNotHoldUpOthers(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	c, err := Open(t.Context(), Config{URL: "redis://" + server.Addr(), DialTimeout: time.Minute, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	ended, end := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	end(enough)
	done := port.AuditEntry{StreamPrefix: "orders", Outcome: port.AuditSuccess}
	refused := port.AuditEntry{StreamPrefix: "orders", Outcome: port.AuditForbidden}
	for _, tt := range []struct {
		name          string
		busy          func(*Audit) chan struct{}
		waits, passes port.AuditEntry
	}{
		{"refused", func(a *Audit) chan struct{} { return a.refusedSlots }, refused, done},
		{"others", func(a *Audit) chan struct{} { return a.slots }, done, refused},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := c.Audit()
			busy := tt.busy(a)
			for range cap(busy) {
				busy <- struct{}{}
			}
			if err := a.Record(t.Context(), tt.passes); err != nil { //nolint:contextcheck // the ended one is for one call
				t.Errorf("the other kind waits: %v", err)
			}
			if err := a.Record(ended, tt.waits); !errors.Is(err, enough) {
				t.Errorf("one more is written: %v", err)
			}
			<-busy
			if err := a.Record(t.Context(), tt.waits); err != nil { //nolint:contextcheck // the ended one is for one call
				t.Errorf("when there is room again: %v", err)
			}
		})
	}
}
