package sql

import (
	"context"
	"slices"
	"strings"
)

func (c chunked) upsert(ctx context.Context, t *tx, group int64, rows []lifeRow) error {
	for chunk := range slices.Chunk(rows, c.most) {
		args := make([]any, 0, 4*len(chunk))
		for _, r := range chunk {
			args = append(args, group, []byte(r.life), orNull(r.stamp), orNull(r.report))
		}
		text := "INSERT INTO rsc_lives (group_id, life, stamp, report) VALUES " + repeated("(?, ?, ?, ?)", len(chunk)) + c.onConflict
		if _, err := t.exec(ctx, t.text(text), args...); err != nil {
			return err
		}
	}
	return nil
}

func (c chunked) unstamp(ctx context.Context, t *tx, group int64, lives []string) error {
	for chunk := range slices.Chunk(lives, c.most) {
		in := " WHERE group_id = ? AND life IN (" + repeated("?", len(chunk)) + ")"
		args := append([]any{group}, names(chunk)...)
		if _, err := t.exec(ctx, t.text("UPDATE rsc_lives SET stamp = NULL"+in), args...); err != nil {
			return err
		}
		if _, err := t.exec(ctx, t.text("DELETE FROM rsc_lives"+in+" AND report IS NULL"), args...); err != nil {
			return err
		}
	}
	return nil
}

func (c chunked) remove(ctx context.Context, t *tx, group int64, lives []string) error {
	for chunk := range slices.Chunk(lives, c.most) {
		text := "DELETE FROM rsc_lives WHERE group_id = ? AND life IN (" + repeated("?", len(chunk)) + ")"
		if _, err := t.exec(ctx, t.text(text), append([]any{group}, names(chunk)...)...); err != nil {
			return err
		}
	}
	return nil
}

// repeated returns a text n times, with commas between.
func repeated(text string, n int) string {
	return strings.TrimSuffix(strings.Repeat(text+", ", n), ", ")
}

// names are texts as arguments: keys are bytes in every dialect.
func names(list []string) []any {
	args := make([]any, len(list))
	for i, one := range list {
		args[i] = []byte(one)
	}
	return args
}

// orNull makes NULL of nil; a []byte that is nil is not that in every driver.
func orNull(b []byte) any {
	if b == nil {
		return nil
	}
	return b
}
