module github.com/redis-stream-coordinator/rsc/coordinator

go 1.26.0

require (
	github.com/redis-stream-coordinator/rsc/core v0.1.0
	github.com/redis-stream-coordinator/rsc/adapters/redis v0.1.0
	github.com/redis-stream-coordinator/rsc/adapters/http v0.1.0
	github.com/redis-stream-coordinator/rsc/consumer v0.1.0
	github.com/redis-stream-coordinator/rsc/producer v0.1.0
)

replace github.com/redis-stream-coordinator/rsc/core => ../core
replace github.com/redis-stream-coordinator/rsc/adapters/redis => ../adapters/redis
replace github.com/redis-stream-coordinator/rsc/adapters/http => ../adapters/http
replace github.com/redis-stream-coordinator/rsc/consumer => ../consumer
replace github.com/redis-stream-coordinator/rsc/producer => ../producer
