package command

import (
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
)

func open(t *testing.T) *Client {
	t.Helper()
	c, s, err := Open(&Options{URL: "redis://" + miniredis.RunT(t).Addr(), DialTimeout: time.Minute, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return c
}

// TestUnindexKeepsWhatWasCreatedAgain: a record is deleted, created again by
// somebody else, and only then does the deleter come to the index.
func TestUnindexKeepsWhatWasCreatedAgain(t *testing.T) {
	c := open(t)
	for _, key := range []string{"gone", "again"} {
		if err := c.Index(t.Context(), "index", key); err != nil {
			t.Fatal(err)
		}
	}
	if created, err := c.CreateHash(t.Context(), "again", map[string]string{"a": "1"}); err != nil || !created {
		t.Fatalf("create: %t, %v", created, err)
	}
	for _, key := range []string{"gone", "again"} {
		if err := c.Unindex(t.Context(), "index", key); err != nil {
			t.Fatal(err)
		}
	}
	if names, err := c.Indexed(t.Context(), "index"); err != nil || len(names) != 1 || names[0] != "again" {
		t.Errorf("the index has %q, %v", names, err)
	}
}

func TestCreateHashOnlyOnce(t *testing.T) {
	c := open(t)
	for i, want := range []bool{true, false} {
		created, err := c.CreateHash(t.Context(), "h", map[string]string{"by": string(rune('a' + i))})
		if err != nil || created != want {
			t.Errorf("create %d: %t, %v", i, created, err)
		}
	}
	if fields, err := c.ReadHash(t.Context(), "h"); err != nil || fields["by"] != "a" {
		t.Errorf("the hash is %v, %v", fields, err)
	}
}
