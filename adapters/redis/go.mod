module github.com/redis-stream-coordinator/rsc/adapters/redis

go 1.26.0

require (
	github.com/redis-stream-coordinator/rsc/core v0.1.0
)

replace github.com/redis-stream-coordinator/rsc/core => ../../core
