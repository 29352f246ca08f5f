package config

import (
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// write makes a settings file of the given text.
func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rsc.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// load reads a file's text, environment and flags, and takes the file's folder
// out of what it says.
func load(t *testing.T, file string, environ []string, flags ...Flag) (c Config, warnings []string, complaint string) {
	t.Helper()
	sources := Sources{Environ: environ, Flags: flags}
	if file != "" {
		sources.File = write(t, file)
	}
	c, warnings, err := Load(sources)
	folder := filepath.Dir(sources.File) + string(filepath.Separator)
	if err != nil {
		complaint = strings.ReplaceAll(err.Error(), folder, "")
	}
	for i := range warnings {
		warnings[i] = strings.ReplaceAll(warnings[i], folder, "")
	}
	return c, warnings, complaint
}

func TestDefaultsAreValid(t *testing.T) {
	c, warnings, complaint := load(t, "", nil)
	if complaint != "" {
		t.Fatal(complaint)
	}
	k := c.Coordinator
	if c.Server.Address != "127.0.0.1:8080" || k.HeartbeatInterval != 3*time.Second || k.MemberLeaseTTL != 15*time.Second || k.RebalanceTimeout != time.Minute ||
		k.Store.Type != StoreMemory || k.Streams.ProvisioningEnabled || k.Defaults.InitialShardCount != 1 || k.Limits.MaxShards != 4096 || k.ID == "" {
		t.Errorf("defaults %+v", c)
	}
	if len(warnings) != 1 || !strings.Contains(warnings[0], "coordinator.store.type: is memory") {
		t.Errorf("warnings %q", warnings)
	}
	users := k.API.APIUsers()
	if len(users) != 1 || users[0].Username != "admin" || users[0].Password != DefaultPassword || len(users[0].Roles) != 5 {
		t.Errorf("users %+v", users)
	}
}

// Each layer overrides the ones before it.
func TestLayers(t *testing.T) {
	const key = "coordinator.loop.tick-interval"
	file := "coordinator: {loop: {tick-interval: 2s}}"
	environ := []string{"COORDINATOR_LOOP_TICK_INTERVAL=3s"}
	flag := Flag{Key: key, Value: "4s", Name: "--set"}
	cases := []struct {
		name    string
		file    string
		environ []string
		flags   []Flag
		want    time.Duration
	}{
		{"default", "", nil, nil, time.Second},
		{"file", file, nil, nil, 2 * time.Second},
		{"environment over file", file, environ, nil, 3 * time.Second},
		{"flag over environment", file, environ, []Flag{flag}, 4 * time.Second},
		{"flag over file", file, nil, []Flag{flag}, 4 * time.Second},
		{"the last flag counts", "", nil, []Flag{{Key: key, Value: "9s"}, flag}, 4 * time.Second},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			config, _, complaint := load(t, c.file, c.environ, c.flags...)
			if complaint != "" || config.Coordinator.Loop.TickInterval != c.want {
				t.Errorf("got %s %s, want %s", config.Coordinator.Loop.TickInterval, complaint, c.want)
			}
		})
	}
}

func TestValues(t *testing.T) {
	cases := []struct {
		name    string
		file    string
		environ []string
		flags   []Flag
		check   func(*Config) any
		want    any
	}{
		{"days", "coordinator: {stale-member-retention: 1d}", nil, nil, func(c *Config) any { return c.Coordinator.StaleMemberRetention }, 24 * time.Hour},
		{"flat keys", "coordinator.id: a\ncoordinator.loop:\n  tick-interval: 2s", nil, nil, func(c *Config) any { return c.Coordinator.ID }, "a"},
		{"empty file", "", nil, nil, func(c *Config) any { return c.Log.Level }, "info"},
		{"empty section", "coordinator:\n  api:\nlog: {}", nil, nil, func(c *Config) any { return c.Coordinator.API.BasePath }, "/coord/v1"},
		{"empty number", "coordinator: {redis: {port: }}", nil, nil, func(c *Config) any { return c.Coordinator.Redis.Port }, 6379},
		{"empty text", `coordinator: {redis: {username: ""}}`, nil, nil, func(c *Config) any { return c.Coordinator.Redis.Username }, ""},
		{"quoted number", `coordinator: {redis: {port: "7000"}}`, nil, nil, func(c *Config) any { return c.Coordinator.Redis.Port }, 7000},
		{"placeholder", "coordinator: {redis: {port: '${P:7001}'}}", []string{"P=7002"}, nil, func(c *Config) any { return c.Coordinator.Redis.Port }, 7002},
		{"placeholder's default", "coordinator: {redis: {port: '${P:7001}'}}", []string{"P="}, nil, func(c *Config) any { return c.Coordinator.Redis.Port }, 7001},
		{"empty placeholder of a number", "coordinator: {redis: {port: '${P:}'}}", nil, nil, func(c *Config) any { return c.Coordinator.Redis.Port }, 6379},
		{"admin password by its own name", "", []string{"REDIS_STREAM_COORDINATOR_ADMIN_PASSWORD=s3"}, nil, func(c *Config) any { return c.Coordinator.API.AdminPassword.Reveal() }, "s3"},
		{"the file over the own name", "coordinator: {api: {admin-password: s4}}", []string{"REDIS_STREAM_COORDINATOR_ADMIN_PASSWORD=s3"}, nil, func(c *Config) any { return c.Coordinator.API.AdminPassword.Reveal() }, "s4"},
		{"redis password by its own name", "", []string{"REDIS_PASSWORD=s3"}, nil, func(c *Config) any { return c.Coordinator.Redis.Password.Reveal() }, "s3"},
		{"redis URL by its own name", "", []string{"REDIS_URL=redis://r"}, nil, func(c *Config) any { return c.Coordinator.Store.Type }, StoreRedis},
		{"a later host over a URL", "coordinator: {redis: {host: h}}", []string{"REDIS_URL=redis://r"}, nil, func(c *Config) any { return []any{c.Coordinator.Redis.URL.Reveal(), c.Coordinator.Redis.Host} }, []any{"", "h"}},
		{"an empty host does nothing", "coordinator: {redis: {host: '${H:}'}}", []string{"REDIS_URL=redis://r"}, nil, func(c *Config) any { return c.Coordinator.Redis.URL.Reveal() }, "redis://r"},
		{"a later Cluster over a URL", "coordinator: {redis: {addresses: ['a:1']}, store: {type: memory}}", []string{"REDIS_URL=redis://r"}, nil,
			func(c *Config) any { return []any{c.Coordinator.Redis.URL.Reveal(), c.Coordinator.Redis.Addresses} }, []any{"", []string{"a:1"}}},
		{"a later URL over a Cluster", "coordinator: {redis: {addresses: ['a:1']}}", []string{"COORDINATOR_REDIS_URL=redis://r"}, nil,
			func(c *Config) any {
				return []any{c.Coordinator.Redis.URL.Reveal(), len(c.Coordinator.Redis.Addresses), c.Coordinator.Store.Type}
			}, []any{"redis://r", 0, StoreRedis}},
		{"streams apart from the metadata", "coordinator: {redis: {host: m}, streams: {redis: {addresses: ['a:1', 'b:2']}}}", nil, nil,
			func(c *Config) any {
				return []any{c.Coordinator.Store.Type, c.Coordinator.Redis.Host, c.Coordinator.StreamsRedis().Addresses, c.Coordinator.Streams.ProvisioningEnabled}
			}, []any{StoreRedis, "m", []string{"a:1", "b:2"}, true}},
		{"streams on a Cluster, metadata in memory", "", []string{"COORDINATOR_STREAMS_REDIS_ADDRESSES=a:1, b:2", "COORDINATOR_STREAMS_REDIS_USERNAME=u"}, nil,
			func(c *Config) any {
				return []any{c.Coordinator.Store.Type, c.Coordinator.StreamsRedis().Addresses, c.Coordinator.StreamsRedis().Username, c.Coordinator.Streams.ProvisioningEnabled}
			}, []any{StoreMemory, []string{"a:1", "b:2"}, "u", true}},
		{"streams with the metadata", "coordinator: {redis: {host: m}}", nil, nil, func(c *Config) any { return c.Coordinator.StreamsRedis().Host }, "m"},
		{"streams behind Sentinels", "coordinator: {streams: {redis: {sentinel: {master: m, addresses: 'a:1,b:2'}, database: 2}}}", nil, nil,
			func(c *Config) any {
				return []any{c.Coordinator.StreamsRedis().Sentinel.Addresses, c.Coordinator.StreamsRedis().Database}
			}, []any{[]string{"a:1", "b:2"}, 2}},
		{"dashes left out", "", []string{"COORDINATOR_API_ADMINPASSWORD=s5"}, nil, func(c *Config) any { return c.Coordinator.API.AdminPassword.Reveal() }, "s5"},
		{"empty variable", "coordinator: {id: a}", []string{"COORDINATOR_ID="}, nil, func(c *Config) any { return c.Coordinator.ID }, "a"},
		{"log level", "", []string{"LOG_LEVEL=debug"}, nil, func(c *Config) any { return c.Log.Level }, "debug"},
		{"port alone", "server: {port: 9000}", nil, nil, func(c *Config) any { return c.Server.Address }, "127.0.0.1:9000"},
		{"port over address", "server: {address: '127.0.0.1:8080'}", []string{"SERVER_PORT=9001"}, nil, func(c *Config) any { return c.Server.Address }, "127.0.0.1:9001"},
		{"a later address over a port", "server: {port: 9000}", nil, []Flag{{Key: "server.address", Value: "127.0.0.1:0"}}, func(c *Config) any { return c.Server.Address }, "127.0.0.1:0"},
		{"address without port", "server: {address: 127.0.0.1}", nil, nil, func(c *Config) any { return c.Server.Address }, "127.0.0.1:8080"},
		{"address of a host and a port", "server: {address: 127.0.0.1, port: 81}", nil, nil, func(c *Config) any { return c.Server.Address }, "127.0.0.1:81"},
		{"IPv6", "server: {address: '::1', port: 81}", nil, nil, func(c *Config) any { return c.Server.Address }, "[::1]:81"},
		{"store follows redis", "coordinator: {redis: {host: r}}", nil, nil, func(c *Config) any { return c.Coordinator.Store.Type }, StoreRedis},
		{"provisioning follows redis", "", []string{"COORDINATOR_REDIS_URL=redis://r"}, nil, func(c *Config) any { return c.Coordinator.Streams.ProvisioningEnabled }, true},
		{"provisioning off", "coordinator: {redis: {host: r}, streams: {provisioning-enabled: false}}", nil, nil, func(c *Config) any { return c.Coordinator.Streams.ProvisioningEnabled }, false},
		{"memory beside redis", "coordinator: {redis: {host: r}, store: {type: memory}}", nil, nil, func(c *Config) any { return c.Coordinator.Store.Type }, StoreMemory},
		{"declared stream", "coordinator: {streams: {declared: [{prefix: orders, groups: [a, b]}]}, defaults: {initial-shard-count: 3}}", nil, nil,
			func(c *Config) any {
				d := c.Coordinator.Streams.Declared[0]
				return []any{d.Prefix, d.Shards, len(d.Groups), d.GroupStart, d.AutoCreateGroups}
			}, []any{"orders", 3, 2, "earliest", true}},
		{"declared stream by variables", "", []string{"COORDINATOR_STREAMS_DECLARED_0_PREFIX=orders", "COORDINATOR_STREAMS_DECLARED_0_SHARDS=4", "COORDINATOR_STREAMS_DECLARED_1_PREFIX=pay",
			"COORDINATOR_STREAMS_DECLARED_1_AUTO_CREATE_GROUPS=false", "COORDINATOR_STREAMS_DECLARED_0_GROUPS=a, b"}, nil,
			func(c *Config) any {
				d := c.Coordinator.Streams.Declared
				return []any{d[0].Shards, strings.Join(d[0].Groups, "+"), d[1].Prefix, d[1].AutoCreateGroups}
			}, []any{4, "a+b", "pay", false}},
		{"roles in small letters", "coordinator: {api: {users: [{username: a, password: p, roles: 'read, member'}]}}", nil, nil,
			func(c *Config) any { return len(c.Coordinator.API.APIUsers()[0].Roles) }, 2},
		{"users by variables replace the file's", "coordinator: {api: {users: [{username: a, password: p, roles: [READ]}]}}", []string{"COORDINATOR_API_USERS_0_USERNAME=b", "COORDINATOR_API_USERS_0_PASSWORD=q", "COORDINATOR_API_USERS_0_ROLES=WRITE"}, nil,
			func(c *Config) any { u := c.Coordinator.API.APIUsers(); return []any{len(u), u[0].Username} }, []any{1, "b"}},
		{"other interface with a password of one's own", "server: {address: '0.0.0.0:80'}", []string{"COORDINATOR_API_ADMIN_PASSWORD=own"}, nil, func(c *Config) any { return c.Server.Address }, "0.0.0.0:80"},
		{"other interface, default allowed", "server: {address: ':80'}\ncoordinator: {api: {allow-default-password: true}}", nil, nil, func(c *Config) any { return c.Server.Address }, ":80"},
		{"other interface, the administrator is not among the users", "server: {address: ':80'}\ncoordinator: {api: {users: [{username: a, password: p, roles: [READ]}]}}", nil, nil, func(c *Config) any { return c.Server.Address }, ":80"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			config, _, complaint := load(t, c.file, c.environ, c.flags...)
			if complaint != "" {
				t.Fatal(complaint)
			}
			if got := c.check(&config); !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func TestComplaints(t *testing.T) {
	cases := []struct {
		name    string
		file    string
		environ []string
		flags   []Flag
		want    string // all of it
	}{
		{"unknown key", "coordinator: {lop: {tick-interval: 1s}}", nil, nil, "coordinator.lop.tick-interval: no such setting, did you mean coordinator.loop.tick-interval? (rsc.yaml)"},
		{"unknown key like nothing", "colour: blue", nil, nil, "colour: no such setting (rsc.yaml)"},
		{"unknown flag key", "", nil, []Flag{{"coordinator.idd", "x", "--set"}}, "coordinator.idd: no such setting, did you mean coordinator.id? (--set)"},
		{"not YAML", "a: b: c", nil, nil, "rsc.yaml: is not a YAML file with settings: yaml: mapping values are not allowed in this context"},
		{"a list instead of settings", "- a", nil, nil, "rsc.yaml: is not a YAML file with settings: yaml: unmarshal errors:\n  line 1: cannot unmarshal !!seq into map[string]interface {}"},
		{"section with a value", "coordinator: {loop: 5}", nil, nil, "coordinator.loop: is a section, it cannot have a value itself (rsc.yaml)"},
		{"setting with a section", "coordinator: {id: {name: a}}", nil, nil, "coordinator.id.name: no such setting (rsc.yaml)"},
		{"text for a number", "coordinator: {redis: {port: many}}", nil, nil, `coordinator.redis.port: is "many", must be a whole number (rsc.yaml)`},
		{"fraction", "coordinator: {redis: {port: 1.5}}", nil, nil, `coordinator.redis.port: is 1.5, must be a whole number (rsc.yaml)`},
		{"list for a number", "coordinator: {redis: {port: [1]}}", nil, nil, `coordinator.redis.port: is a list, must be a whole number (rsc.yaml)`},
		{"number from the environment", "", []string{"COORDINATOR_REDIS_PORT=7x"}, nil, `coordinator.redis.port: is "7x", must be a whole number (COORDINATOR_REDIS_PORT)`},
		{"yes for a bool", "coordinator: {redis: {ssl: 'yes'}}", nil, nil, `coordinator.redis.ssl: is "yes", must be true or false (rsc.yaml)`},
		{"duration without unit", "coordinator: {heartbeat-interval: 3}", nil, nil, "coordinator.heartbeat-interval: is 3, must be a duration with a unit, such as 500ms, 3s, 1m30s or 7d (rsc.yaml)"},
		{"no duration", "coordinator: {heartbeat-interval: soon}", nil, nil, `coordinator.heartbeat-interval: is "soon", must be a duration with a unit, such as 500ms, 3s, 1m30s or 7d (rsc.yaml)`},
		{"number for a text", "coordinator: {id: 007}", nil, nil, "coordinator.id: must be a text: put it into quotes (rsc.yaml)"},
		{"missing variable", "coordinator: {api: {admin-password: '${PW}'}}", nil, nil, "coordinator.api.admin-password: needs the environment variable PW, which is not set: set it, or write ${PW:default} (rsc.yaml)"},
		{"open placeholder", "coordinator: {id: '${PW'}", nil, nil, "coordinator.id: has a ${ without its } (rsc.yaml)"},
		{"users are no list", "coordinator: {api: {users: admin}}", nil, nil, "coordinator.api.users: must be a list (rsc.yaml)"},
		{"user is no section", "coordinator: {api: {users: [admin]}}", nil, nil, "coordinator.api.users[0]: must have settings of its own, such as username (rsc.yaml)"},
		{"unknown key of a user", "coordinator: {api: {users: [{user: a}]}}", nil, nil, "coordinator.api.users[0].user: no such setting (rsc.yaml)"},
		{"users without passwords", "coordinator: {api: {users: [{username: a, roles: [READ]}]}}", nil, nil, "coordinator.api.users: none of the 1 users has a password: set one, or remove the list"},
		{"user without role", "coordinator: {api: {users: [{username: a, password: p}]}}", nil, nil, "coordinator.api.users[0].roles: at least one of ADMIN, MEMBER, MONITOR, READ, WRITE is needed"},
		{"gap in variables", "", []string{"COORDINATOR_API_USERS_1_USERNAME=a"}, nil, "COORDINATOR_API_USERS_1_…: the elements must be numbered from 0 without gaps"},
		{"lease too short", "coordinator: {member-lease-ttl: 5s}", nil, nil, "coordinator.member-lease-ttl: is 5s, must be at least three times heartbeat-interval (3s)"},
		{"contradictory timings", "coordinator: {heartbeat-interval: 10s, rebalance-timeout: 1s}", nil, nil,
			"coordinator.member-lease-ttl: is 15s, must be at least three times heartbeat-interval (10s)\ncoordinator.rebalance-timeout: is 1s, must not be shorter than member-lease-ttl (15s)"},
		{"slow tick", "coordinator: {loop: {tick-interval: 16s}}", nil, nil, "coordinator.loop.tick-interval: is 16s, must be between 10ms and a third of member-lease-ttl (5s): leases that ran out are noticed at a tick"},
		{"routing lease", "coordinator: {routing-lease: 1ms}", nil, nil, "coordinator.routing-lease: is 1ms, must be between 1s and 1h"},
		{"shutdown timeout", "server: {shutdown-timeout: 0s}", nil, nil, "server.shutdown-timeout: is 0s, must be between 100ms and 10m"},
		{"address", "server: {address: 'http://x'}", nil, nil, `server.address: is "http://x", must be a host and a port such as 127.0.0.1:8080`},
		{"port", "server: {port: 70000}", nil, nil, `server.address: is "127.0.0.1:70000", must be a host and a port such as 127.0.0.1:8080`},
		{"half a pair", "server: {tls: {cert-file: ../config/doc.go}}", nil, nil, "server.tls: cert-file and key-file go together: set both or none"},
		{"log", "log: {level: loud, format: xml}", nil, nil, "log.level: is \"loud\", must be one of debug, info, warn, error\nlog.format: is \"xml\", must be one of auto, text, json"},
		{"id", "coordinator: {id: 'a/b'}", nil, nil, "coordinator.id: must not contain /"},
		{"base path", "coordinator: {api: {base-path: coord}}", nil, nil, `coordinator.api.base-path: is "coord", must be like /coord/v1`},
		{"admin without password", "coordinator: {api: {admin-password: ''}}", nil, nil, "coordinator.api.admin-password: must not be empty"},
		{"default password for all to use", "server: {address: '0.0.0.0:8080'}", nil, nil, `coordinator.api.admin-password: user "admin" has the documented default password, and 0.0.0.0:8080 is not a loopback address: ` +
			"set another one (REDIS_STREAM_COORDINATOR_ADMIN_PASSWORD), listen on 127.0.0.1, or set coordinator.api.allow-default-password"},
		{"default password of a listed user", "server: {address: 'example.org:8080'}\ncoordinator: {api: {users: [{username: m, password: password, roles: [READ]}]}}", nil, nil,
			`coordinator.api.admin-password: user "m" has the documented default password, and example.org:8080 is not a loopback address: ` +
				"set another one (REDIS_STREAM_COORDINATOR_ADMIN_PASSWORD), listen on 127.0.0.1, or set coordinator.api.allow-default-password"},
		{"life of a token", "coordinator: {api: {token-ttl: 500ms}}", nil, nil, "coordinator.api.token-ttl: is 500ms, must be between 1s and 365d"},
		{"previous secret alone", "coordinator: {api: {token-secret-previous: hunter2}}", nil, nil, "coordinator.api.token-secret-previous: is set, but token-secret is not: the new secret goes there"},
		{"rate limit", "coordinator: {api: {rate-limit: {admin-mutations-per-minute: -1}}}", nil, nil, "coordinator.api.rate-limit.admin-mutations-per-minute: is -1, must be between 0 and 1000000"},
		{"audit", "coordinator: {audit: {sink: syslog, redis-max-entries: 0}}", nil, nil,
			"coordinator.audit.sink: is \"syslog\", must be one of log, redis, sql\ncoordinator.audit.redis-max-entries: is 0, must be between 1 and 1000000"},
		{"audit in a redis that is not there", "coordinator: {audit: {sink: redis}}", nil, nil,
			"coordinator.audit.sink: is redis, but coordinator.store.type is memory: the audit goes to where the store is, or to the log"},
		{"audit in a database that is not there", "coordinator: {audit: {sink: sql}}", nil, nil,
			"coordinator.audit.sink: is sql, but coordinator.store.type is memory: the audit goes to where the store is, or to the log"},
		{"tracing", "coordinator: {tracing: {endpoint: 'http://u:hidden@h/', sample-percent: 101}}", nil, nil,
			"coordinator.tracing.sample-percent: is 101, must be between 0 and 100\ncoordinator.tracing.endpoint: must be like http://127.0.0.1:4318/v1/traces, without user and password: headers are given by OTEL_EXPORTER_OTLP_HEADERS"},
		{"store", "coordinator: {store: {type: disk}}", nil, nil, `coordinator.store.type: is "disk", must be one of memory, redis, sql`},
		{"database that is not named", "coordinator: {store: {type: jdbc}}", nil, nil,
			"coordinator.sql.dsn: must name the database, because coordinator.store.type is sql\ncoordinator.sql.driver: is \"\", must be one of postgres, mysql, sqlite"},
		{"kind of database", "coordinator: {store: {type: sql}, sql: {driver: oracle, dsn: hunter2, table-prefix: 'A;'}}", nil, nil,
			"coordinator.sql.table-prefix: is \"A;\", must be at most 32 small letters, digits and underscores, a letter first\ncoordinator.sql.driver: is \"oracle\", must be one of postgres, mysql, sqlite"},
		{"whole database of no kind", "coordinator: {store: {type: 'oracle://u:hunter2@h/d'}}", nil, nil,
			"coordinator.store.type: must be memory, redis, sql, or a database such as sqlite:./rsc.db, postgres://user@host/database or mysql://user@host/database"},
		{"redis store without redis", "coordinator: {store: {type: redis}}", nil, nil, "coordinator.store.type: is redis, but no Redis is configured: set coordinator.redis.url"},
		{"provisioning without redis", "coordinator: {streams: {provisioning-enabled: true}}", nil, nil, "coordinator.streams.provisioning-enabled: is true, but no Redis is configured: set coordinator.redis.url"},
		{"key prefix", "coordinator: {store: {key-prefix: 'a{b}'}}", nil, nil, "coordinator.store.key-prefix: must not contain { or }"},
		{"redis url", "coordinator: {redis: {url: 'http://user:hunter2@x'}}", nil, nil, "coordinator.redis.url: must be like redis://user:password@host:6379/0, rediss:// for TLS, or unix:///path"},
		{"redis url that cannot be read", "coordinator: {redis: {url: 'redis://user:hunter2@x:port'}}", nil, nil, "coordinator.redis.url: must be like redis://user:password@host:6379/0, rediss:// for TLS, or unix:///path"},
		{"redis url without such a port", "coordinator: {redis: {url: 'redis://user:hunter2@x:99999'}}", nil, nil, "coordinator.redis.url: must be like redis://user:password@host:6379/0, rediss:// for TLS, or unix:///path"},
		{"redis url of a cluster", "coordinator: {redis: {url: 'redis://user:hunter2@x:1,y:2'}}", nil, nil, "coordinator.redis.url: must name one server: a Cluster is given by coordinator.redis.addresses, such as --set coordinator.redis.addresses=10.0.0.1:6379"},
		{"wait for replicas of memory", "coordinator: {redis: {wait-replicas: 1}}", nil, nil, "coordinator.redis.wait-replicas: is 1, but coordinator.store.type is memory, which has no replicas"},
		{"wait for replicas", "coordinator: {redis: {addresses: ['a:1', 'b:2'], wait-replicas: 1000, wait-replicas-timeout: 5s}}", nil, nil,
			"coordinator.redis.wait-replicas: is 1000, must be between 0 and 100\ncoordinator.redis.wait-replicas-timeout: is 5s, must be between 10ms and 2s"},
		{"wait for replicas of streams", "coordinator: {streams: {redis: {host: h, wait-replicas: 1}}}", nil, nil, "coordinator.streams.redis.wait-replicas: no such setting (rsc.yaml)"},
		{"half a sentinel", "coordinator: {store: {type: memory}}", []string{"COORDINATOR_REDIS_SENTINEL_MASTER=m"}, nil, "coordinator.redis.sentinel: master and addresses go together: set both or none"},
		{"several kinds of redis", "coordinator: {streams: {redis: {host: h, addresses: ['a:1']}}}", nil, nil, "coordinator.streams.redis.addresses: only one of url, host, addresses (a Cluster) and sentinel may be set"},
		{"database of a cluster", "coordinator: {streams: {redis: {database: 3, addresses: ['a:1']}}}", nil, nil, "coordinator.streams.redis.database: is 3, but a Cluster has no other database than 0"},
		{"addresses", "coordinator: {streams: {redis: {addresses: ['a:1', 'redis://:hunter2@x:1', b, 'c:x', ':1']}}}", nil, nil,
			"coordinator.streams.redis.addresses[1]: must be host:port, such as 10.0.0.1:6379; user, password and TLS have settings of their own\n" +
				"coordinator.streams.redis.addresses[2]: must be host:port, such as 10.0.0.1:6379; user, password and TLS have settings of their own\n" +
				"coordinator.streams.redis.addresses[3]: must be host:port, such as 10.0.0.1:6379; user, password and TLS have settings of their own\n" +
				"coordinator.streams.redis.addresses[4]: must be host:port, such as 10.0.0.1:6379; user, password and TLS have settings of their own"},
		{"mutex", "coordinator: {coordination: {state-mutex: {ttl-ms: 1, acquire-timeout-ms: 50}}}", nil, nil,
			"coordinator.coordination.state-mutex.ttl-ms: is 1, must be between 1000 and 600000\ncoordinator.coordination.state-mutex.retry-interval-ms: is 100, must be between 1 and 50"},
		{"shards", "coordinator: {limits: {max-shards: 70000}, defaults: {initial-shard-count: 0}}", nil, nil,
			"coordinator.limits.max-shards: is 70000, must be between 1 and 65536\ncoordinator.defaults.initial-shard-count: is 0, must be between 1 and 70000"},
		{"declared", "coordinator: {streams: {declared: [{prefix: 'a{', shards: 5000, group-start: now, groups: [g, g, '']}, {prefix: b}, {prefix: b}]}}", nil, nil,
			"coordinator.streams.declared[0].prefix: must not contain { or }\ncoordinator.streams.declared[0].shards: is 5000, must be between 1 and 4096\n" +
				"coordinator.streams.declared[0].group-start: is \"now\", must be one of earliest, latest\ncoordinator.streams.declared[0].groups[1]: \"g\" is listed twice\n" +
				"coordinator.streams.declared[0].groups[2]: must not be blank\ncoordinator.streams.declared[2].prefix: \"b\" is declared twice"},
		{"several at once", "coordinator: {redis: {port: a, database: b}}", []string{"COORDINATOR_LOOP_TICK_INTERVAL=x"}, nil,
			"coordinator.loop.tick-interval: is \"x\", must be a duration with a unit, such as 500ms, 3s, 1m30s or 7d (COORDINATOR_LOOP_TICK_INTERVAL)\n" +
				"coordinator.redis.port: is \"a\", must be a whole number (rsc.yaml)\ncoordinator.redis.database: is \"b\", must be a whole number (rsc.yaml)"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, _, complaint := load(t, c.file, c.environ, c.flags...)
			if complaint != c.want {
				t.Errorf("got\n%s\nwant\n%s", complaint, c.want)
			}
			if strings.Contains(complaint, "hunter2") {
				t.Error("a password is shown")
			}
		})
	}
}

func TestWarnings(t *testing.T) {
	memory := "coordinator.store.type: is memory"
	cases := []struct {
		name    string
		file    string
		environ []string
		want    []string // the beginnings
	}{
		{"unknown variable", "", []string{"COORDINATOR_LOP=1"}, []string{"COORDINATOR_LOP: no such setting; ignored", memory}},
		{"what a container platform sets", "", []string{"COORDINATOR_PORT=tcp://10.0.0.1:80", "COORDINATOR_SERVICE_HOST=10.0.0.1"},
			[]string{"COORDINATOR_PORT: no such setting; ignored", "COORDINATOR_SERVICE_HOST: no such setting; ignored", memory}},
		{"what it sets beside a service called coordinator-redis", "", []string{"COORDINATOR_REDIS_PORT=tcp://10.0.0.7:6379"},
			[]string{"COORDINATOR_REDIS_PORT: is the address of a service that the container platform announces, not coordinator.redis.port; ignored", memory}},
		{"not ours", "", []string{"PATH=/bin", "SPRING_PROFILES_ACTIVE=x", "SERVER_NAME=a"}, []string{memory}},
		{"retired key", "coordinator: {health: {redis-timeout-ms: 300}}", nil, []string{"coordinator.health.redis-timeout-ms: ignored; nothing replaces it: health needs no cache (rsc.yaml)", memory}},
		{"retired key with a successor", "coordinator: {coordination: {state-mutex: {ttl: 30s}}}", nil,
			[]string{"coordinator.coordination.state-mutex.ttl: ignored; use coordinator.coordination.state-mutex.ttl-ms (rsc.yaml)", memory}},
		{"retired variable", "", []string{"SPRING_DATA_REDIS_HOST=r"}, []string{"SPRING_DATA_REDIS_HOST: ignored; use coordinator.redis.host", memory}},
		{"of another framework", "spring: {application: {name: x}}\nmanagement: {endpoints: {web: {exposure: {include: health}}}}", nil,
			[]string{"management.endpoints.web.exposure.include: ignored; nothing replaces it", "spring.application.name: ignored; nothing replaces it", memory}},
		{"of a cache that is no more", "coordinator: {monitoring: {offset-cache-ttl-ms: 1}}", nil,
			[]string{"coordinator.monitoring.offset-cache-ttl-ms: ignored; nothing replaces it: what Redis was asked is kept for a moment (rsc.yaml)", memory}},
		{"user without password", "coordinator: {api: {users: [{username: a, password: p, roles: [READ]}, {username: b, password: '${B:}', roles: [READ]}]}}", nil,
			[]string{memory, `coordinator.api.users[1]: "b" has no password, so this user does not exist`}},
		{"memory on purpose", "coordinator: {store: {type: memory}}", nil, nil},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, warnings, complaint := load(t, c.file, c.environ)
			if complaint != "" {
				t.Fatal(complaint)
			}
			if len(warnings) != len(c.want) {
				t.Fatalf("got %q, want %q", warnings, c.want)
			}
			for i := range warnings {
				if !strings.HasPrefix(warnings[i], c.want[i]) {
					t.Errorf("got  %s\nwant %s", warnings[i], c.want[i])
				}
			}
		})
	}
}

func TestFilesThatCannotBeRead(t *testing.T) {
	if _, _, err := Load(Sources{File: filepath.Join(t.TempDir(), "none.yaml")}); err == nil || !strings.Contains(err.Error(), "none.yaml") {
		t.Errorf("a missing file: %v", err)
	}
	if _, _, err := Load(Sources{File: t.TempDir()}); err == nil {
		t.Error("a folder was read")
	}
	large := write(t, "# "+strings.Repeat("x", maxFileBytes))
	if _, _, err := Load(Sources{File: large}); err == nil || !strings.Contains(err.Error(), "larger than") {
		t.Errorf("a large file: %v", err)
	}
}

// No two settings share a variable, and no setting's variable is the start of a
// list's.
func TestVariablesAreUnique(t *testing.T) {
	owner := map[string]string{}
	for _, s := range settings {
		for _, name := range variableNames(s.key) {
			if other, taken := owner[name]; taken {
				t.Errorf("%s is %s and %s", name, s.key, other)
			}
			owner[name] = s.key
		}
		if says, ok := retiredKey(s.key); ok {
			t.Errorf("%s is a setting and retired: %s", s.key, says)
		}
	}
}
