module github.com/redis-stream-coordinator/rsc/e2e

go 1.26.0

require (
	github.com/redis-stream-coordinator/rsc/core v0.0.0
	github.com/redis/go-redis/v9 v9.23.0
	github.com/twmb/franz-go v1.22.3
	github.com/twmb/franz-go/pkg/kmsg v1.15.1
	golang.org/x/mod v0.43.0
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/klauspost/compress v1.20.3 // indirect
	github.com/pierrec/lz4/v4 v4.1.33 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	golang.org/x/sys v0.48.0 // indirect
)

replace github.com/redis-stream-coordinator/rsc/core => ../core

replace github.com/redis-stream-coordinator/rsc/adapters/redis => ../adapters/redis

replace github.com/redis-stream-coordinator/rsc/adapters/http => ../adapters/http

replace github.com/redis-stream-coordinator/rsc/coordinator => ../coordinator

replace github.com/redis-stream-coordinator/rsc/consumer => ../consumer

replace github.com/redis-stream-coordinator/rsc/producer => ../producer
