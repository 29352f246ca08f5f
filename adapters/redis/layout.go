package redis

import (
	"strings"

	"github.com/redis-stream-coordinator/rsc/adapters/redis/internal/command"
	"github.com/redis-stream-coordinator/rsc/core/port"
)

// layout makes and reads the names of keys; the package comment shows them.
type layout struct {
	prefix string
}

const (
	metadataSuffix = "}:metadata"
	streamSuffix   = "}:stream"
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
func (l layout) groups() string                   { return l.prefix + ":groups" }
func (l layout) streams() string                  { return l.prefix + ":streams" }
func (l layout) storeID() string                  { return l.prefix + ":store-id" }

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
