package redis

import (
	"fmt"
	"strings"
	"sync"

	"github.com/redis-stream-coordinator/rsc/adapters/redis/internal/command"
	"github.com/redis-stream-coordinator/rsc/core/port"
	"github.com/redis-stream-coordinator/rsc/core/routing"
)

// layout makes and reads the names of keys; the package comment shows them.
type layout struct {
	prefix string
}

const (
	metadataSuffix = "}:metadata"
	streamSuffix   = "}:stream"
	auditSuffix    = ":admin:audit"
)

var (
	encodeGroup = strings.NewReplacer("%", "%25", ":", "%3A", "{", "%7B", "}", "%7D")
	decodeGroup = strings.NewReplacer("%25", "%", "%3A", ":", "%7B", "{", "%7D", "}")
)

func (l layout) group(key port.GroupKey) command.GroupKeys {
	return l.tagged(key.Stream + ":" + encodeGroup.Replace(key.Group))
}

// oldGroup are the keys that programs without encoding used.
func (l layout) oldGroup(key port.GroupKey) command.GroupKeys {
	return l.tagged(key.Stream + ":" + key.Group)
}

func (l layout) tagged(tag string) command.GroupKeys {
	tagged := l.prefix + ":{" + tag
	return command.GroupKeys{Metadata: tagged + metadataSuffix, Live: tagged + "}:live", Report: tagged + "}:report"}
}

func (l layout) groupMutex(key port.GroupKey) string {
	return l.prefix + ":{" + key.Stream + ":" + encodeGroup.Replace(key.Group) + "}:mutex"
}

func (l layout) stream(prefix string) string      { return l.prefix + ":{" + prefix + streamSuffix }
func (l layout) streamMutex(prefix string) string { return l.prefix + ":{" + prefix + "}:stream-mutex" }

func (l layout) groupAudit(key port.GroupKey) string {
	return l.prefix + ":{" + key.Stream + ":" + encodeGroup.Replace(key.Group) + "}" + auditSuffix
}

func (l layout) streamAudit(prefix string) string {
	return l.prefix + ":{" + prefix + "}" + auditSuffix
}
func (l layout) refusedAudit() string { return l.prefix + auditSuffix }

func (l layout) groups() string  { return l.prefix + ":groups" }
func (l layout) streams() string { return l.prefix + ":streams" }
func (l layout) storeID() string { return l.prefix + ":store-id" }
func (l layout) changes() string { return l.prefix + ":changes" }

// parts is how many keys show that no server of a Cluster was emptied, each in a
// slot range of its own: a master with twice that many slots in a row holds one.
const parts = 64

// partTags are hash tags, the i-th with a slot in the i-th range.
var partTags = sync.OnceValue(func() []string {
	const slots = 16384 / parts
	tags := make([]string, parts)
	for i := range tags {
		for k := 0; ; k++ {
			tags[i] = fmt.Sprintf("%d.%d", i, k)
			if routing.Slot(tags[i])/slots == i {
				break
			}
		}
	}
	return tags
})

func (l layout) storeParts() []string {
	keys := make([]string, parts)
	for i, tag := range partTags() {
		keys[i] = l.prefix + ":{" + tag + "}:store-part"
	}
	return keys
}

// tag returns what stands in the braces of a key of ours.
func (l layout) tag(key, suffix string) (tag string, ok bool) {
	tag, ok = strings.CutPrefix(key, l.prefix+":{")
	if !ok {
		return "", false
	}
	return strings.CutSuffix(tag, suffix)
}

// parseGroup reads a metadata key as one of ours: in the group's name there is
// no colon, so the last one ends the prefix.
func (l layout) parseGroup(key string) (port.GroupKey, bool) {
	tag, ok := l.tag(key, metadataSuffix)
	i := strings.LastIndexByte(tag, ':')
	if !ok || i < 0 {
		return port.GroupKey{}, false
	}
	return port.GroupKey{Stream: tag[:i], Group: decodeGroup.Replace(tag[i+1:])}, true
}

// ambiguous reports whether, in the old form, a metadata key can stand for
// another pair of names than in ours.
func (l layout) ambiguous(key string) bool {
	tag, _ := l.tag(key, metadataSuffix)
	return strings.Count(tag, ":") != 1 || strings.ContainsAny(tag, "%{}")
}
