package config

import (
	"os"
	"strings"
	"time"

	httpapi "github.com/redis-stream-coordinator/rsc/adapters/http"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// Config holds every setting of `rsc server`. The key of a setting is made of
// the tags, joined by dots: Coordinator.API.BasePath is coordinator.api.base-path.
type Config struct {
	Server      Server      `key:"server"`
	Log         Log         `key:"log"`
	Coordinator Coordinator `key:"coordinator"`
}

// Server is where and how the coordinator listens.
type Server struct {
	// Address is host and port; without a host it is every interface, port 0
	// picks a free one.
	Address string `key:"address"`
	// Port replaces the port of Address; 0 leaves it.
	Port int       `key:"port"`
	TLS  ServerTLS `key:"tls"`
	// ShutdownTimeout bounds how long requests under way are waited for.
	ShutdownTimeout time.Duration `key:"shutdown-timeout"`
}

// ServerTLS makes the server speak HTTPS when both files are given.
type ServerTLS struct {
	CertFile string `key:"cert-file"`
	KeyFile  string `key:"key-file"`
}

// Log says what is logged and in which form.
type Log struct {
	// Level is debug, info, warn or error.
	Level string `key:"level"`
	// Format is text, json, or auto: text on a terminal, else JSON.
	Format string `key:"format"`
}

// Coordinator holds what the coordinator itself is told.
type Coordinator struct {
	// ID names this process among the coordinators.
	ID string `key:"id"`
	// HeartbeatInterval, MemberLeaseTTL and RebalanceTimeout are the timings that
	// a new group lives by.
	HeartbeatInterval time.Duration `key:"heartbeat-interval"`
	MemberLeaseTTL    time.Duration `key:"member-lease-ttl"`
	RebalanceTimeout  time.Duration `key:"rebalance-timeout"`
	// RoutingLease is how long a producer may use what it was told.
	RoutingLease time.Duration `key:"routing-lease"`
	// StaleMemberRetention is how long members that ended are listed.
	StaleMemberRetention time.Duration `key:"stale-member-retention"`
	Loop                 Loop          `key:"loop"`
	API                  API           `key:"api"`
	Audit                Audit         `key:"audit"`
	Store                Store         `key:"store"`
	Redis                MetadataRedis `key:"redis"`
	SQL                  SQL           `key:"sql"`
	Coordination         Coordination  `key:"coordination"`
	Streams              Streams       `key:"streams"`
	Defaults             Defaults      `key:"defaults"`
	Limits               Limits        `key:"limits"`
	Monitoring           Monitoring    `key:"monitoring"`
	Tracing              Tracing       `key:"tracing"`
}

// StreamsRedis returns where the streams are.
func (c *Coordinator) StreamsRedis() *Redis {
	if c.Streams.Redis.Configured() {
		return &c.Streams.Redis
	}
	return &c.Redis.Redis
}

// Timings returns the three durations that a new group lives by.
func (c *Coordinator) Timings() protocol.Timings {
	return protocol.Timings{HeartbeatInterval: c.HeartbeatInterval, Lease: c.MemberLeaseTTL, RebalanceTimeout: c.RebalanceTimeout}
}

// Loop is the event loop: expiry, and whatever else time brings about.
type Loop struct {
	// Enabled runs it; without it another coordinator must.
	Enabled      bool          `key:"enabled"`
	TickInterval time.Duration `key:"tick-interval"`
}

// API is the HTTP API and its users.
type API struct {
	BasePath string `key:"base-path"`
	// AdminUsername and AdminPassword are the one user with all roles, while
	// Users is empty.
	AdminUsername string `key:"admin-username"`
	AdminPassword Secret `key:"admin-password"`
	// AllowDefaultPassword takes the documented password off the loopback
	// interface too.
	AllowDefaultPassword bool `key:"allow-default-password"`
	// AuthenticateMemberAPI asks members for credentials.
	AuthenticateMemberAPI bool   `key:"authenticate-member-api"`
	Users                 []User `key:"users"`
	// TokenSecret signs what a login issues, TokenSecretPrevious signed what is still
	// taken. TokenTTL is how long a token serves.
	TokenSecret         Secret        `key:"token-secret"`
	TokenSecretPrevious Secret        `key:"token-secret-previous"`
	TokenTTL            time.Duration `key:"token-ttl"`
	RateLimit           RateLimit     `key:"rate-limit"`
}

// RateLimit bounds how often one user may change one thing.
type RateLimit struct {
	Enabled bool `key:"enabled"`
	// AdminMutationsPerMinute are the attempts in a minute; with 0 nothing can be
	// changed.
	AdminMutationsPerMinute int `key:"admin-mutations-per-minute"`
}

// User may call the API.
type User struct {
	Username string   `key:"username"`
	Password Secret   `key:"password"`
	Roles    []string `key:"roles"`
}

// The places where the audit is kept.
const (
	AuditLog   = "log"
	AuditRedis = "redis"
	AuditSQL   = "sql"
)

// Audit is the record of who changed what.
type Audit struct {
	// Sink is AuditLog, AuditRedis or AuditSQL.
	Sink string `key:"sink"`
	// RedisMaxEntries is how many entries Redis keeps for each stream and group.
	RedisMaxEntries int `key:"redis-max-entries"`
}

// The kinds of stores.
const (
	StoreMemory = "memory"
	StoreRedis  = "redis"
	StoreSQL    = "sql"
)

// Store is where groups and streams are kept.
type Store struct {
	// Type is StoreMemory, StoreRedis or StoreSQL; StoreRedis when a Redis is configured.
	// In place of StoreSQL it can be the whole of a database, see splitStore.
	Type      string `key:"type"`
	KeyPrefix string `key:"key-prefix"`
}

// SQL is the database that keeps groups and streams.
type SQL struct {
	// Driver is postgres, mysql (MariaDB, too) or sqlite.
	Driver string `key:"driver"`
	// DSN names the database: a URL, what the driver takes, or the path of a file.
	DSN Secret `key:"dsn"`
	// TablePrefix begins the names of all tables.
	TablePrefix string `key:"table-prefix"`
}

// MetadataRedis is the Redis that keeps groups and streams.
type MetadataRedis struct {
	Redis
	// WaitReplicas is how many replicas must have what is written before it is
	// answered, WaitReplicasTimeout how long that is waited for.
	WaitReplicas        int           `key:"wait-replicas"`
	WaitReplicasTimeout time.Duration `key:"wait-replicas-timeout"`
}

// Redis says where a Redis is: one server, a Cluster, or the master that Sentinels
// watch.
type Redis struct {
	// URL is redis://[user[:password]@]host[:port][/database], rediss:// for TLS,
	// or unix://path. It wins over Host, Port, Database and SSL.
	URL URL `key:"url"`
	// Addresses are host:port of some nodes of a Redis Cluster.
	Addresses []string `key:"addresses"`
	Sentinel  Sentinel `key:"sentinel"`
	Host      string   `key:"host"`
	Port      int      `key:"port"`
	// Database goes with Host and Sentinel.
	Database int `key:"database"`
	// Username and Password count where the URL has none.
	Username string `key:"username"`
	Password Secret `key:"password"`
	// SSL reaches Host, Addresses and what Sentinel names by TLS.
	SSL bool     `key:"ssl"`
	TLS RedisTLS `key:"tls"`
}

// Sentinel names the Sentinels that know where the server is.
type Sentinel struct {
	// Master is what they call it.
	Master    string   `key:"master"`
	Addresses []string `key:"addresses"`
	// Username and Password are for the Sentinels themselves.
	Username string `key:"username"`
	Password Secret `key:"password"`
}

// Configured says whether there is a Redis at all.
func (r *Redis) Configured() bool { return r.OneServer() || r.isCluster() || r.isSentinel() }

// OneServer says whether it is a server of its own.
func (r *Redis) OneServer() bool { return r.URL != "" || r.Host != "" }

func (r *Redis) isCluster() bool  { return len(r.Addresses) > 0 }
func (r *Redis) isSentinel() bool { return r.Sentinel.Master != "" || len(r.Sentinel.Addresses) > 0 }

// RedisTLS is for servers with certificates of one's own.
type RedisTLS struct {
	CAFile   string `key:"ca-file"`
	CertFile string `key:"cert-file"`
	KeyFile  string `key:"key-file"`
}

// Coordination is how several coordinators keep out of each other's way.
type Coordination struct {
	StateMutex StateMutex `key:"state-mutex"`
}

// StateMutex is the mutex of each group. It saves work; what makes writes safe
// is the store's compare-and-set.
type StateMutex struct {
	Enabled          bool `key:"enabled"`
	TTLMs            int  `key:"ttl-ms"`
	AcquireTimeoutMs int  `key:"acquire-timeout-ms"`
	RetryIntervalMs  int  `key:"retry-interval-ms"`
}

// Streams says what the coordinator does about the streams themselves.
type Streams struct {
	// ProvisioningEnabled creates streams and consumer groups in Redis; true when
	// a Redis is configured.
	ProvisioningEnabled bool `key:"provisioning-enabled"`
	// Redis holds the streams; Coordinator.Redis does where this one is not
	// configured.
	Redis    Redis      `key:"redis"`
	Declared []Declared `key:"declared"`
}

// Declared is a stream that is to exist.
type Declared struct {
	Prefix string `key:"prefix"`
	// Shards is the number of shards it is created with; 0 means
	// Defaults.InitialShardCount.
	Shards int `key:"shards"`
	// Groups are to exist too.
	Groups []string `key:"groups"`
	// GroupStart is earliest or latest: where new groups begin.
	GroupStart string `key:"group-start"`
	// AutoCreateGroups lets a member's join create its group.
	AutoCreateGroups bool `key:"auto-create-groups"`
}

// Defaults count where a request says nothing.
type Defaults struct {
	InitialShardCount int `key:"initial-shard-count"`
}

// Limits bound what grows.
type Limits struct {
	// MaxShards bounds the shard count of a stream.
	MaxShards int `key:"max-shards"`
}

// DefaultPassword is the documented password of the one administrator. It is
// known to everybody, so it is refused where others can reach it.
const DefaultPassword = "password"

// Default returns the settings that count where nothing else is said.
func Default() Config {
	t := protocol.DefaultTimings()
	return Config{
		Server: Server{Address: "127.0.0.1:8080", ShutdownTimeout: 15 * time.Second},
		Log:    Log{Level: "info", Format: "auto"},
		Coordinator: Coordinator{
			ID:                   defaultID(),
			HeartbeatInterval:    t.HeartbeatInterval,
			MemberLeaseTTL:       t.Lease,
			RebalanceTimeout:     t.RebalanceTimeout,
			RoutingLease:         30 * time.Second,
			StaleMemberRetention: 10 * time.Minute,
			Loop:                 Loop{Enabled: true, TickInterval: time.Second},
			API: API{
				BasePath: "/coord/v1", AdminUsername: "admin", AdminPassword: DefaultPassword,
				TokenTTL: httpapi.DefaultTokenTTL, RateLimit: RateLimit{AdminMutationsPerMinute: 60},
			},
			Audit:        Audit{Sink: AuditLog, RedisMaxEntries: 1000},
			Store:        Store{KeyPrefix: "redis-stream:coord"},
			Redis:        MetadataRedis{Redis: Redis{Port: 6379}, WaitReplicasTimeout: time.Second},
			SQL:          SQL{TablePrefix: "rsc_"},
			Streams:      Streams{Redis: Redis{Port: 6379}},
			Coordination: Coordination{StateMutex: StateMutex{Enabled: true, TTLMs: 1_500, AcquireTimeoutMs: 5_000, RetryIntervalMs: 100}},
			Defaults:     Defaults{InitialShardCount: 1},
			Limits:       Limits{MaxShards: protocol.DefaultMaxShards},
			Monitoring:   Monitoring{ShardMetrics: true},
			Tracing:      Tracing{SamplePercent: 10},
		},
	}
}

// defaultID is the host's name: containers of one set have different ones.
func defaultID() string {
	name, err := os.Hostname()
	if err != nil || protocol.ValidateName("host name", name) != nil {
		return "local-coordinator"
	}
	return strings.TrimSpace(name)
}

// setDefaults fills a list's new element before its own settings are read.
func (d *Declared) setDefaults() {
	d.AutoCreateGroups, d.GroupStart = true, string(protocol.StartEarliest)
}
