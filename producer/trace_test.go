package producer_test

import (
	"context"
	"strings"
	"testing"

	"github.com/redis-stream-coordinator/rsc/producer"
	"github.com/redis-stream-coordinator/rsc/producer/internal/redistest"
)

type traceKey struct{}

func TestTraceParent(t *testing.T) {
	server := redistest.Start(t)
	provision(t, server.Client, 1)
	const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	p := open(t, newCoordinator(1), server.Addr, func(cfg *producer.Config) {
		cfg.MaxMessageBytes = 200
		cfg.TraceParent = func(ctx context.Context) string {
			text, _ := ctx.Value(traceKey{}).(string)
			return text
		}
	})
	own := producer.Message{Key: "k", Fields: []producer.Field{{Name: producer.TraceField, Value: "mine"}}}
	for name, publish := range map[string]func(ctx context.Context, m producer.Message) error{
		"Publish": func(ctx context.Context, m producer.Message) error { _, err := p.Publish(ctx, m); return err },
		"PublishBatch": func(ctx context.Context, m producer.Message) error {
			_, err := p.PublishBatch(ctx, []producer.Message{m})
			return err
		},
		"Send": func(ctx context.Context, m producer.Message) error {
			f, err := p.Send(ctx, m)
			if err == nil {
				_, err = f.Wait(ctx)
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			traced := context.WithValue(t.Context(), traceKey{}, trace)
			for _, tt := range []struct {
				traced bool
				m      producer.Message
				want   string
			}{
				{true, message("k", "x"), trace},
				{false, message("k", "x"), ""},
				{true, own, "mine"},
			} {
				ctx := t.Context()
				if tt.traced {
					ctx = traced
				}
				server.Client.XTrimMaxLen(t.Context(), "orders:0", 0)
				if err := publish(ctx, tt.m); err != nil {
					t.Fatal(err)
				}
				got := server.Client.XRange(t.Context(), "orders:0", "-", "+").Val()[0].Values
				if text, _ := got[producer.TraceField].(string); text != tt.want {
					t.Errorf("stored %v, want %q", got, tt.want)
				}
			}
			// The field counts as what it is: part of the record.
			wantError(t, publish(traced, message("k", strings.Repeat("x", 150))), producer.ErrMessageTooLarge)
			if err := publish(t.Context(), message("k", strings.Repeat("x", 150))); err != nil {
				t.Error(err)
			}
		})
	}
}
