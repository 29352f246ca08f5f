package config

import "strings"

// retired are keys that existing installations use and this coordinator does
// not read: what it says of them. A key that ends in a dot covers all below it.
// Longer ones come first.
var retired = []struct{ key, says string }{
	{"coordinator.coordination.state-mutex.ttl", "use coordinator.coordination.state-mutex.ttl-ms"},
	{"coordinator.coordination.state-mutex.acquire-timeout", "use coordinator.coordination.state-mutex.acquire-timeout-ms"},
	{"coordinator.coordination.state-mutex.retry-interval", "use coordinator.coordination.state-mutex.retry-interval-ms"},
	{"coordinator.redis-cluster.", "nothing replaces it: servers are reached under the addresses they are known by"},
	{"coordinator.health.", "nothing replaces it: health needs no cache"},
	{"coordinator.defaults.consumer-max-concurrency", "nothing replaces it: each consumer says what it can do"},
	{"spring.data.redis.url", "use coordinator.redis.url"},
	{"spring.data.redis.host", "use coordinator.redis.host"},
	{"spring.data.redis.port", "use coordinator.redis.port"},
	{"spring.data.redis.database", "use coordinator.redis.database"},
	{"spring.data.redis.username", "use coordinator.redis.username"},
	{"spring.data.redis.password", "use coordinator.redis.password"},
	{"spring.data.redis.ssl.", "use coordinator.redis.ssl"},
	{"spring.data.redis.", "use coordinator.redis.url"},
	{"spring.config.import", "use --config, and ${NAME} in the file for secrets"},
	{"spring.", "nothing replaces it"},
	{"management.", "nothing replaces it: /health/live and /health/ready are always there"},

	{"coordinator.monitoring.offset-cache-ttl-ms", "nothing replaces it: what Redis was asked is kept for a moment"},
	{"coordinator.monitoring.shard-query-parallelism", "nothing replaces it: shards are asked for in pipelines"},
	{"coordinator.monitoring.group-query-parallelism", "nothing replaces it: groups are asked for side by side"},
}

// retiredKey says what replaces a key, if it is one that is accepted for the
// sake of existing installations.
func retiredKey(key string) (says string, ok bool) {
	for _, r := range retired {
		if covers(r.key, key) {
			return r.says, true
		}
	}
	return "", false
}

// covers reports whether an entry of a table speaks of key.
func covers(entry, key string) bool {
	if below, found := strings.CutSuffix(entry, "."); found {
		return key == below || strings.HasPrefix(key, entry)
	}
	return key == entry
}
