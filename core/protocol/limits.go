package protocol

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// The limits of everything that grows. Where one is a setting too, this is its
// default or its upper end, as the comment says.
const (
	// MaxNameBytes bounds prefixes, group names, member ids and names,
	// incarnations and request ids.
	MaxNameBytes = 200
	// DefaultMaxShards bounds a stream's shard count by default.
	DefaultMaxShards = 4096
	// MaxShards bounds a stream's shard count whatever the setting.
	MaxShards = 65536
	// MaxMembers bounds the members of a group, those that still hold something
	// after they ended included.
	MaxMembers = 10_000
	// MaxGroups bounds the groups of a stream.
	MaxGroups = 64
	// MaxReasonBytes bounds requestedBy and reason of an admin request.
	MaxReasonBytes = 1000
	// minHeartbeatBytes and heartbeatBytesPerShard make up HeartbeatLimit.
	minHeartbeatBytes      = 1 << 20
	heartbeatBytesPerShard = 256
	// MaxAggregateBytes bounds the encoded state of a group.
	MaxAggregateBytes = 8 << 20
	// MaxAdminBytes bounds the body of an admin request.
	MaxAdminBytes = 64 << 10
)

// HeartbeatLimit bounds the body of a heartbeat, in bytes: 1 MiB, or 256 for
// each shard of the stream if that is more.
func HeartbeatLimit(shards int) int {
	return max(minHeartbeatBytes, heartbeatBytesPerShard*shards)
}

// ValidatePrefix refuses a stream prefix that cannot become part of a key: the
// rules of ValidateName, and no braces, which would be read as a hash tag.
func ValidatePrefix(field, prefix string) error {
	if err := ValidateName(field, prefix); err != nil {
		return err
	}
	if strings.ContainsAny(prefix, "{}") {
		return ErrInvalidRequest.With("%s: must not contain { or }", field)
	}
	return nil
}

// ValidateName refuses a name that is blank, longer than MaxNameBytes, not
// UTF-8, or holds a control character or a slash. field is the name that the
// message uses.
func ValidateName(field, name string) error {
	var bad complaints
	checkName(&bad, field, name)
	return bad.err()
}

func checkName(bad *complaints, field, name string) {
	switch {
	case strings.TrimSpace(name) == "":
		bad.addf(field, "must not be blank")
	case len(name) > MaxNameBytes:
		bad.addf(field, "is %d bytes long, at most %d are allowed", len(name), MaxNameBytes)
	case !utf8.ValidString(name):
		bad.addf(field, "must be valid UTF-8")
	case strings.ContainsRune(name, '/'):
		bad.addf(field, "must not contain /")
	case strings.ContainsFunc(name, unicode.IsControl):
		bad.addf(field, "must not contain control characters")
	}
}
