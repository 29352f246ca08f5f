package config

import (
	"fmt"
	"net"
	"strconv"
	"strings"
)

// resolve settles what depends on other settings and was not said itself.
func (l *loader) resolve(c *Config) {
	k := &c.Coordinator
	k.resolveStore()
	if k.Store.Type == "" {
		k.Store.Type = StoreMemory
		if k.Redis.Configured() {
			k.Store.Type = StoreRedis
		} else {
			l.warn("coordinator.store.type: is memory because no Redis is configured for it: streams and groups are forgotten when this process ends; set coordinator.redis.url, or coordinator.store.type to a file such as sqlite:./rsc.db, to keep them")
		}
	}
	if !l.has("coordinator.streams.provisioning-enabled") {
		k.Streams.ProvisioningEnabled = k.StreamsRedis().Configured()
	}
	for i := range k.Streams.Declared {
		if d := &k.Streams.Declared[i]; d.Shards == 0 {
			d.Shards = k.Defaults.InitialShardCount
		}
	}
	c.Server.Address = joinPort(c.Server.Address, c.Server.Port)
	c.Server.Port = 0
	l.dropUsersWithoutPassword(&k.API)
	l.warnOfTokenSecret(c)
}

// joinPort puts port into address, and the default one where there is none.
func joinPort(address string, port int) string {
	host, own, err := net.SplitHostPort(address)
	if err != nil {
		host, own = strings.Trim(address, "[]"), "8080"
	}
	if port != 0 {
		own = strconv.Itoa(port)
	}
	return net.JoinHostPort(host, own)
}

// dropUsersWithoutPassword leaves out listed users that nobody gave a password,
// which is how the shipped file offers users that are not wanted everywhere.
func (l *loader) dropUsersWithoutPassword(api *API) {
	kept := api.Users[:0:0]
	for i, u := range api.Users {
		if u.Password == "" {
			l.warn("coordinator.api.users[%d]: %q has no password, so this user does not exist", i, u.Username)
			continue
		}
		kept = append(kept, u)
	}
	if len(api.Users) > 0 && len(kept) == 0 {
		l.bad = append(l.bad, fmt.Errorf("coordinator.api.users: none of the %d users has a password: set one, or remove the list", len(api.Users)))
	}
	api.Users = kept
}
