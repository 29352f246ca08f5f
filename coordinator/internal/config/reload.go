package config

import (
	"reflect"
	"slices"
)

// reloadable are the settings that can be taken over while the coordinator runs. An
// entry that ends in a dot covers all below it.
var reloadable = []string{
	"log.level",
	"server.tls.",
	"coordinator.api.admin-username",
	"coordinator.api.admin-password",
	"coordinator.api.allow-default-password",
	"coordinator.api.users",
	"coordinator.api.token-secret",
	"coordinator.api.token-secret-previous",
	"coordinator.api.token-ttl",
	"coordinator.api.rate-limit.",
	"coordinator.limits.",
}

// TakeOver sets what can be changed while the coordinator runs to what next says. It
// returns the keys of what was changed, and of what differs and needs a new start.
func (c *Config) TakeOver(next *Config) (changed, left []string) {
	own, other := reflect.ValueOf(c).Elem(), reflect.ValueOf(next).Elem()
	// A server cannot begin or cease to speak TLS while it listens.
	sameScheme := (c.Server.TLS.CertFile == "") == (next.Server.TLS.CertFile == "")
	for _, s := range settings {
		field, value := own.FieldByIndex(s.index), other.FieldByIndex(s.index)
		if reflect.DeepEqual(field.Interface(), value.Interface()) {
			continue
		}
		if !isReloadable(s.key) || covers("server.tls.", s.key) && !sameScheme {
			left = append(left, s.key)
			continue
		}
		field.Set(value)
		changed = append(changed, s.key)
	}
	return changed, left
}

func isReloadable(key string) bool {
	return slices.ContainsFunc(reloadable, func(entry string) bool { return covers(entry, key) })
}
