module github.com/redis-stream-coordinator/rsc/producer

go 1.25

require (
	github.com/redis-stream-coordinator/rsc/core v0.1.0
)

replace github.com/redis-stream-coordinator/rsc/core => ../core
