package config

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	httpapi "github.com/redis-stream-coordinator/rsc/adapters/http"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// Bounds of durations that have no other.
const (
	minTick            = 10 * time.Millisecond
	minRoutingLease    = time.Second
	maxRoutingLease    = time.Hour
	maxRetention       = 30 * 24 * time.Hour
	minShutdownTimeout = 100 * time.Millisecond
	maxShutdownTimeout = 10 * time.Minute
	maxMutexMs         = 10 * 60 * 1000
	minMutexTTLMs      = 1000
	minMutexAcquireMs  = 10
	maxRedisDatabase   = 1 << 20
	maxAddresses       = 1000
	maxWaitReplicas    = 100
	maxMutationRate    = 1_000_000
	maxAuditEntries    = 1_000_000
	// minWaitReplicasTimeout and maxWaitReplicasTimeout leave a write time to be
	// answered.
	minWaitReplicasTimeout = 10 * time.Millisecond
	maxWaitReplicasTimeout = 2 * time.Second
)

// complaints collects what is wrong, each with the key that it is about.
type complaints []error

func (c *complaints) addf(key, format string, args ...any) {
	*c = append(*c, fmt.Errorf("%s: %s", key, fmt.Sprintf(format, args...)))
}

func (c *complaints) within(key string, n, low, high int) {
	if n < low || n > high {
		c.addf(key, "is %d, must be between %d and %d", n, low, high)
	}
}

func (c *complaints) lasting(key string, d, low, high time.Duration) {
	if d < low || d > high {
		c.addf(key, "is %s, must be between %s and %s", formatDuration(d), formatDuration(low), formatDuration(high))
	}
}

func (c *complaints) oneOf(key, text string, allowed ...string) {
	if !slices.Contains(allowed, text) {
		c.addf(key, "is %.40q, must be one of %s", text, strings.Join(allowed, ", "))
	}
}

// protocol takes over what the protocol's own checks say: their messages begin
// with the name that they were given.
func (c *complaints) protocol(err error) {
	var e *protocol.Error
	if errors.As(err, &e) {
		*c = append(*c, errors.New(e.Message))
	}
}

// file checks that a file is there, if one is named.
func (c *complaints) file(key, path string) {
	if path == "" {
		return
	}
	if info, err := os.Stat(path); err != nil {
		*c = append(*c, fmt.Errorf("%s: %w", key, err))
	} else if info.IsDir() {
		c.addf(key, "%s is a folder, must be a file", path)
	}
}

// pair checks that a certificate and its key come together.
func (c *complaints) pair(prefix, cert, key string) {
	if (cert == "") != (key == "") {
		c.addf(prefix, "cert-file and key-file go together: set both or none")
	}
	c.file(prefix+".cert-file", cert)
	c.file(prefix+".key-file", key)
}

// Validate joins all complaints about settings that are resolved, as Load gives them.
func (c *Config) Validate() error {
	var bad complaints
	listens := c.Server.validate(&bad)
	bad.oneOf("log.level", c.Log.Level, "debug", "info", "warn", "error")
	bad.oneOf("log.format", c.Log.Format, "auto", "text", "json")
	c.Coordinator.validate(&bad)
	if listens {
		c.validateDefaultPassword(&bad)
	}
	return errors.Join(bad...)
}

// validate reports whether the address is one to listen on.
func (s *Server) validate(bad *complaints) (listens bool) {
	host, port, err := net.SplitHostPort(s.Address)
	n, portErr := strconv.Atoi(port)
	listens = err == nil && portErr == nil && n >= 0 && n <= 65535 && !strings.ContainsAny(host, "/ ")
	if !listens {
		bad.addf("server.address", "is %.80q, must be a host and a port such as 127.0.0.1:8080", s.Address)
	}
	bad.lasting("server.shutdown-timeout", s.ShutdownTimeout, minShutdownTimeout, maxShutdownTimeout)
	bad.pair("server.tls", s.TLS.CertFile, s.TLS.KeyFile)
	return listens
}

func (c *Coordinator) validate(bad *complaints) {
	bad.protocol(protocol.ValidateName("coordinator.id", c.ID))
	c.validateTimings(bad)
	c.API.validate(bad)
	c.Audit.validate(bad, c.Store.Type)
	c.Tracing.validate(bad)
	c.Store.validate(bad)
	c.Redis.validate(bad, c.Store.Type)
	c.SQL.validate(bad, c.Store.Type)
	c.Streams.Redis.validate(bad, "coordinator.streams.redis.")
	c.Coordination.StateMutex.validate(bad)
	bad.within("coordinator.limits.max-shards", c.Limits.MaxShards, 1, protocol.MaxShards)
	bad.within("coordinator.defaults.initial-shard-count", c.Defaults.InitialShardCount, 1, max(1, c.Limits.MaxShards))
	c.Streams.validate(bad, max(1, c.Limits.MaxShards))
	if c.Store.Type == StoreRedis && !c.Redis.Configured() {
		bad.addf("coordinator.store.type", "is redis, but no Redis is configured: set coordinator.redis.url")
	}
	if c.Streams.ProvisioningEnabled && !c.StreamsRedis().Configured() {
		bad.addf("coordinator.streams.provisioning-enabled", "is true, but no Redis is configured: set coordinator.redis.url")
	}
}

func (c *Coordinator) validateTimings(bad *complaints) {
	var e *protocol.Error
	if errors.As(c.Timings().Validate(), &e) {
		for complaint := range strings.SplitSeq(e.Message, "; ") {
			*bad = append(*bad, errors.New("coordinator."+complaint))
		}
	}
	if third := c.MemberLeaseTTL / 3; c.Loop.TickInterval < minTick || c.Loop.TickInterval > third {
		bad.addf("coordinator.loop.tick-interval", "is %s, must be between %s and a third of member-lease-ttl (%s): leases that ran out are noticed at a tick",
			formatDuration(c.Loop.TickInterval), formatDuration(minTick), formatDuration(third))
	}
	bad.lasting("coordinator.routing-lease", c.RoutingLease, minRoutingLease, maxRoutingLease)
	bad.lasting("coordinator.stale-member-retention", c.StaleMemberRetention, time.Second, maxRetention)
}

func (a *API) validate(bad *complaints) {
	if len(a.Users) == 0 {
		if strings.TrimSpace(a.AdminUsername) == "" || strings.Contains(a.AdminUsername, ":") {
			bad.addf("coordinator.api.admin-username", "must not be blank or contain a colon")
		}
		if a.AdminPassword == "" {
			bad.addf("coordinator.api.admin-password", "must not be empty")
		}
	} else {
		bad.nested("coordinator.api.", httpapi.ValidateUsers(a.APIUsers()))
	}
	bad.lasting("coordinator.api.token-ttl", a.TokenTTL, httpapi.MinTokenTTL, httpapi.MaxTokenTTL)
	bad.within("coordinator.api.rate-limit.admin-mutations-per-minute", a.RateLimit.AdminMutationsPerMinute, 0, maxMutationRate)
	if strings.TrimSpace(a.TokenSecretPrevious.Reveal()) != "" && strings.TrimSpace(a.TokenSecret.Reveal()) == "" {
		bad.addf("coordinator.api.token-secret-previous", "is set, but token-secret is not: the new secret goes there")
	}
	if err := httpapi.ValidateBasePath(a.BasePath); err != nil {
		bad.addf("coordinator.api.base-path", "%s", err)
	}
}

func (a *Audit) validate(bad *complaints, store string) {
	bad.oneOf("coordinator.audit.sink", a.Sink, AuditLog, AuditRedis, AuditSQL)
	bad.within("coordinator.audit.redis-max-entries", a.RedisMaxEntries, 1, maxAuditEntries)
	if a.Sink == AuditRedis && store != StoreRedis || a.Sink == AuditSQL && store != StoreSQL {
		bad.addf("coordinator.audit.sink", "is %s, but coordinator.store.type is %s: the audit goes to where the store is, or to the log", a.Sink, store)
	}
}

// nested puts prefix in front of each of the errors that err joins.
func (c *complaints) nested(prefix string, err error) {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, one := range joined.Unwrap() {
			*c = append(*c, fmt.Errorf("%s%w", prefix, one))
		}
		return
	}
	if err != nil {
		*c = append(*c, fmt.Errorf("%s%w", prefix, err))
	}
}

func (s *Store) validate(bad *complaints) {
	if strings.Contains(s.Type, ":") {
		// It is not shown: it may hold a password.
		bad.addf("coordinator.store.type", "must be %s, %s, %s, or a database such as sqlite:./rsc.db, postgres://user@host/database or mysql://user@host/database",
			StoreMemory, StoreRedis, StoreSQL)
	} else {
		bad.oneOf("coordinator.store.type", s.Type, StoreMemory, StoreRedis, StoreSQL)
	}
	bad.protocol(protocol.ValidatePrefix("coordinator.store.key-prefix", s.KeyPrefix))
}

func (r *MetadataRedis) validate(bad *complaints, store string) {
	const key = "coordinator.redis."
	r.Redis.validate(bad, key)
	bad.within(key+"wait-replicas", r.WaitReplicas, 0, maxWaitReplicas)
	bad.lasting(key+"wait-replicas-timeout", r.WaitReplicasTimeout, minWaitReplicasTimeout, maxWaitReplicasTimeout)
	if r.WaitReplicas > 0 && store != StoreRedis {
		bad.addf(key+"wait-replicas", "is %d, but coordinator.store.type is %s, which has no replicas", r.WaitReplicas, store)
	}
}

// validate checks one of the places that say where a Redis is; prefix begins the
// keys there.
func (r *Redis) validate(bad *complaints, prefix string) {
	if r.URL != "" {
		// The errors of url.Parse quote the URL, password included.
		u, err := url.Parse(r.URL.Reveal())
		if err == nil && strings.Contains(u.Host, ",") {
			bad.addf(prefix+"url", "must name one server: a Cluster is given by %saddresses, such as --set %saddresses=10.0.0.1:6379", prefix, prefix)
		} else if err != nil || !isPort(u.Port()) || !slices.Contains([]string{"redis", "rediss", "unix"}, u.Scheme) || u.Host == "" && u.Scheme != "unix" {
			bad.addf(prefix+"url", "must be like redis://user:password@host:6379/0, rediss:// for TLS, or unix:///path")
		}
	}
	if r.OneServer() && (r.isCluster() || r.isSentinel()) || r.isCluster() && r.isSentinel() {
		bad.addf(prefix+"addresses", "only one of url, host, addresses (a Cluster) and sentinel may be set")
	}
	if r.isSentinel() && (r.Sentinel.Master == "" || len(r.Sentinel.Addresses) == 0) {
		bad.addf(prefix+"sentinel", "master and addresses go together: set both or none")
	}
	if r.isCluster() && r.Database != 0 {
		bad.addf(prefix+"database", "is %d, but a Cluster has no other database than 0", r.Database)
	}
	bad.addresses(prefix+"addresses", r.Addresses)
	bad.addresses(prefix+"sentinel.addresses", r.Sentinel.Addresses)
	bad.within(prefix+"port", r.Port, 1, 65535)
	bad.within(prefix+"database", r.Database, 0, maxRedisDatabase)
	bad.file(prefix+"tls.ca-file", r.TLS.CAFile)
	bad.pair(prefix+"tls", r.TLS.CertFile, r.TLS.KeyFile)
}

// isPort reports whether the port of a URL may be one; without any it is the default.
func isPort(port string) bool {
	n, err := strconv.Atoi(port)
	return port == "" || err == nil && n >= 1 && n <= 65535
}

func (c *complaints) addresses(key string, list []string) {
	if len(list) > maxAddresses {
		c.addf(key, "has %d entries, at most %d are allowed", len(list), maxAddresses)
		return
	}
	for i, address := range list {
		host, port, err := net.SplitHostPort(address)
		n, notANumber := strconv.Atoi(port)
		if err != nil || host == "" || strings.ContainsAny(host, "/@ ") || notANumber != nil || n < 1 || n > 65535 {
			// It is not shown: it may be a URL with a password.
			c.addf(fmt.Sprintf("%s[%d]", key, i), "must be host:port, such as 10.0.0.1:6379; user, password and TLS have settings of their own")
		}
	}
}

func (m *StateMutex) validate(bad *complaints) {
	const key = "coordinator.coordination.state-mutex."
	bad.within(key+"ttl-ms", m.TTLMs, minMutexTTLMs, maxMutexMs)
	bad.within(key+"acquire-timeout-ms", m.AcquireTimeoutMs, minMutexAcquireMs, maxMutexMs)
	bad.within(key+"retry-interval-ms", m.RetryIntervalMs, 1, max(1, m.AcquireTimeoutMs))
}

func (s *Streams) validate(bad *complaints, maxShards int) {
	seen := map[string]bool{}
	for i, d := range s.Declared {
		key := fmt.Sprintf("coordinator.streams.declared[%d].", i)
		bad.protocol(protocol.ValidatePrefix(key+"prefix", d.Prefix))
		if seen[d.Prefix] {
			bad.addf(key+"prefix", "%.40q is declared twice", d.Prefix)
		}
		seen[d.Prefix] = true
		bad.within(key+"shards", d.Shards, 1, maxShards)
		bad.oneOf(key+"group-start", d.GroupStart, string(protocol.StartEarliest), string(protocol.StartLatest))
		if len(d.Groups) > protocol.MaxGroups {
			bad.addf(key+"groups", "has %d entries, at most %d are allowed", len(d.Groups), protocol.MaxGroups)
		}
		for j, g := range d.Groups {
			bad.protocol(protocol.ValidateName(fmt.Sprintf("%sgroups[%d]", key, j), g))
			if slices.Index(d.Groups, g) < j {
				bad.addf(fmt.Sprintf("%sgroups[%d]", key, j), "%.40q is listed twice", g)
			}
		}
	}
}

// validateDefaultPassword refuses the documented password where others than this
// machine's users can reach the API.
func (c *Config) validateDefaultPassword(bad *complaints) {
	api := &c.Coordinator.API
	if api.AllowDefaultPassword || isLoopback(c.Server.Address) {
		return
	}
	for _, u := range api.APIUsers() {
		if u.Password == DefaultPassword {
			bad.addf("coordinator.api.admin-password", "user %q has the documented default password, and %s is not a loopback address: "+
				"set another one (REDIS_STREAM_COORDINATOR_ADMIN_PASSWORD), listen on 127.0.0.1, or set coordinator.api.allow-default-password", u.Username, c.Server.Address)
		}
	}
}

func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
