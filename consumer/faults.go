package consumer

import (
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// The kinds of trouble with Redis, as Health and the log name them.
const (
	faultGroupGone     = "group-gone"
	faultStreamMissing = "stream-missing"
	faultNotAStream    = "not-a-stream"
	faultPermission    = "no-permission"
	faultLogin         = "login-refused"
	faultMaxClients    = "max-clients"
	faultIsCluster     = "is-a-cluster"
	faultNoCluster     = "is-not-a-cluster"
	faultRedirects     = "redirects"
	faultPassing       = "not-ready"
	faultRefused       = "refused"
	faultUnreachable   = "unreachable"
	// faultNoAnswer is about the coordinator.
	faultNoAnswer = "no-answer"
	// faultOrderBy is about the application.
	faultOrderBy = "order-by"
)

// passingCodes are the error codes of a server that will answer otherwise after a
// while: it starts, fails over, hands slots over, is out of memory or busy.
var passingCodes = map[string]string{
	"LOADING":     "the server loads its data",
	"READONLY":    "the server is a replica: a failover is under way, or Redis.Addrs names a replica",
	"MASTERDOWN":  "the replica has lost its master",
	"CLUSTERDOWN": "slots of the cluster are not served: check CLUSTER INFO",
	"TRYAGAIN":    "a slot is being moved",
	"BUSY":        "a script keeps the server busy: SCRIPT KILL ends it",
	"OOM":         "the server is out of memory: raise maxmemory, or trim",
	"MISCONF":     "the server cannot save to disk and takes no writes",
	"NOREPLICAS":  "the server has too few replicas and takes no writes",
}

const (
	adviceFull      = "raise maxclients of the server, or lower MaxBlockedReaders"
	adviceIsCluster = "this server belongs to a Redis Cluster: set Redis.IsClusterMode"
)

// fault is what an error of Redis amounts to.
type fault struct {
	kind string
	// advice says what it means, and what to do if it does not pass; it may be empty.
	advice string
}

// diagnose says what err means for the reader of a stream.
func (s *servers) diagnose(err error, stream string) fault {
	if errors.Is(err, errServerFull) {
		return fault{faultMaxClients, adviceFull}
	}
	var reply redis.Error
	if !errors.As(err, &reply) {
		return fault{faultUnreachable, "it is tried again until Redis answers"}
	}
	text := reply.Error()
	code, rest, _ := strings.Cut(text, " ")
	switch code {
	case "NOPERM":
		return fault{faultPermission, "run on every node: " + s.permission(text, stream)}
	case "NOAUTH", "WRONGPASS":
		return fault{faultLogin, "check Redis.Username and Redis.Password"}
	case "WRONGTYPE":
		return fault{faultNotAStream, "something else than a stream lies under the shard's key: move it away"}
	case "MOVED", "ASK":
		if !s.clustered() {
			return fault{faultIsCluster, adviceIsCluster}
		}
		return fault{faultRedirects, "the nodes of the cluster disagree about who has the slot"}
	case "NOGROUP", "UNBLOCKED":
		return fault{faultGroupGone, ""}
	}
	switch {
	case passingCodes[code] != "":
		return fault{faultPassing, passingCodes[code]}
	case strings.HasPrefix(rest, "max number of clients"):
		return fault{faultMaxClients, adviceFull}
	case s.clustered() && strings.Contains(rest, "cluster support disabled"):
		return fault{faultNoCluster, "this server does not belong to a Redis Cluster: give Redis.Addrs one address, without Redis.IsClusterMode"}
	}
	return fault{kind: faultRefused}
}

// permission words the rule that a user lacks, as a command for its operator.
func (s *servers) permission(text, stream string) string {
	user := s.options.Username
	if user == "" {
		user = "default"
	}
	rule := "~" + stream + ":*"
	if _, quoted, found := strings.Cut(text, "the '"); found {
		command, _, _ := strings.Cut(quoted, "'")
		rule = "+" + command
	}
	return fmt.Sprintf("ACL SETUSER %s %s", user, rule)
}

// hopeless returns the refusal to start for a fault that no waiting ends, nil for
// others.
func (f fault) hopeless(err error) error {
	switch f.kind {
	case faultPermission:
		return ErrRedisPermission.With("%s (%s)", f.advice, err)
	case faultIsCluster, faultNoCluster:
		return ErrRedisMode.With("%s", f.advice)
	}
	return nil
}

// refusesClient reports whether the server answered that it does not know CLIENT,
// or that the user may not call it; not that it serves nobody at the moment.
func refusesClient(err error) bool {
	var reply redis.Error
	if !errors.As(err, &reply) {
		return false
	}
	code, rest, _ := strings.Cut(reply.Error(), " ")
	switch code {
	case "NOAUTH", "WRONGPASS", "MOVED", "ASK":
		return false
	}
	return passingCodes[code] == "" && !strings.HasPrefix(rest, "max number of clients")
}

// Why Run does not start.
var (
	// ErrRedisPermission: the user of Config.Redis may not call a command that
	// reading needs, or not on the stream's keys. The message holds the ACL rule.
	ErrRedisPermission = &protocol.Error{Code: "REDIS_PERMISSION", Message: "the Redis user lacks a permission"}
	// ErrRedisMode: Config.Redis is for a single server and the server belongs to a
	// Redis Cluster, or the other way round.
	ErrRedisMode = &protocol.Error{Code: "REDIS_MODE", Message: "Config.Redis does not fit the server"}
)
