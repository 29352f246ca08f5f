package redis

import (
	"testing"

	"github.com/redis-stream-coordinator/rsc/core/port"
	"github.com/redis-stream-coordinator/rsc/core/routing"
)

// TestKeys is golden: other programs and operators' scripts read these keys.
func TestKeys(t *testing.T) {
	l := layout{prefix: DefaultKeyPrefix}
	group := l.group(port.GroupKey{Stream: "orders:eu", Group: "a:b%{c}"})
	for got, want := range map[string]string{
		group.Metadata: "redis-stream:coord:{orders:eu:a%3Ab%25%7Bc%7D}:metadata",
		group.Live:     "redis-stream:coord:{orders:eu:a%3Ab%25%7Bc%7D}:live",
		group.Report:   "redis-stream:coord:{orders:eu:a%3Ab%25%7Bc%7D}:report",
		l.groupMutex(port.GroupKey{Stream: "orders:eu", Group: "a:b%{c}"}):        "redis-stream:coord:{orders:eu:a%3Ab%25%7Bc%7D}:mutex",
		l.group(port.GroupKey{Stream: "orders", Group: "billing"}).Metadata:       "redis-stream:coord:{orders:billing}:metadata",
		l.oldGroup(port.GroupKey{Stream: "orders:eu", Group: "a:b%{c}"}).Metadata: "redis-stream:coord:{orders:eu:a:b%{c}}:metadata",
		l.stream("orders:eu"):      "redis-stream:coord:{orders:eu}:stream",
		l.streamMutex("orders:eu"): "redis-stream:coord:{orders:eu}:stream-mutex",
		l.groupAudit(port.GroupKey{Stream: "orders:eu", Group: "a:b"}): "redis-stream:coord:{orders:eu:a%3Ab}:admin:audit",
		l.streamAudit("orders:eu"):                                     "redis-stream:coord:{orders:eu}:admin:audit",
		l.refusedAudit():                                               "redis-stream:coord:admin:audit",
		l.groups():                                                     "redis-stream:coord:groups",
		l.streams():                                                    "redis-stream:coord:streams",
		l.storeID():                                                    "redis-stream:coord:store-id",
		(layout{prefix: "coord:"}).group(port.GroupKey{Stream: "s", Group: "g"}).Metadata: "coord::{s:g}:metadata",
	} {
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestKeysOfOneGroupShareASlot(t *testing.T) {
	l := layout{prefix: DefaultKeyPrefix}
	for _, key := range []port.GroupKey{
		{Stream: "orders", Group: "billing"}, {Stream: "a:b", Group: "c"}, {Stream: "a", Group: "}{"}, {Stream: "%", Group: "{x}"},
	} {
		keys := l.group(key)
		slot := routing.Slot(keys.Metadata)
		for _, other := range []string{keys.Live, keys.Report, l.groupMutex(key)} {
			if routing.Slot(other) != slot {
				t.Errorf("%s is in slot %d, %s in %d", keys.Metadata, slot, other, routing.Slot(other))
			}
		}
		if routing.Slot(l.stream(key.Stream)) != routing.Slot(l.streamMutex(key.Stream)) {
			t.Errorf("the keys of stream %s are in two slots", key.Stream)
		}
	}
}

func TestParseGroup(t *testing.T) {
	l := layout{prefix: "P"}
	for _, key := range []port.GroupKey{
		{Stream: "orders", Group: "billing"},
		{Stream: "a:b", Group: "c"},
		{Stream: "a", Group: "b:c"},
		{Stream: "a", Group: "b%3Ac"},
		{Stream: "a%3Ab", Group: "%25"},
		{Stream: ":", Group: ":"},
		{Stream: "a", Group: "}:metadata"},
		{Stream: "日本", Group: "{語}"},
	} {
		if got, ok := l.parseGroup(l.group(key).Metadata); !ok || got != key {
			t.Errorf("%q became %q", key, got)
		}
	}
	for _, name := range []string{"", "P:groups", "P:{a:b}:group", "P:{ab}:metadata", "Q:{a:b}:metadata", "P:{a:b}:metadata:more"} {
		if got, ok := l.parseGroup(name); ok {
			t.Errorf("%q was taken for the key of %q", name, got)
		}
	}
}
