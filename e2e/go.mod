module github.com/redis-stream-coordinator/rsc/e2e

go 1.26.0

require golang.org/x/mod v0.43.0

replace github.com/redis-stream-coordinator/rsc/core => ../core

replace github.com/redis-stream-coordinator/rsc/adapters/redis => ../adapters/redis

replace github.com/redis-stream-coordinator/rsc/adapters/http => ../adapters/http

replace github.com/redis-stream-coordinator/rsc/coordinator => ../coordinator

replace github.com/redis-stream-coordinator/rsc/consumer => ../consumer

replace github.com/redis-stream-coordinator/rsc/producer => ../producer
