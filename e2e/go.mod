module github.com/redis-stream-coordinator/rsc/e2e

go 1.26.0

require (
	// The peer of streambench: MIT License, v1.4.5 of November 2025, 840 lines besides
	// its tests. It brings watermill (MIT) and small libraries for ids, retries and
	// msgpack (MIT, Apache 2.0, BSD).
	github.com/ThreeDotsLabs/watermill v1.5.0
	github.com/ThreeDotsLabs/watermill-redisstream v1.4.5
	github.com/redis-stream-coordinator/rsc/consumer v0.0.0
	github.com/redis-stream-coordinator/rsc/core v0.1.0
	github.com/redis-stream-coordinator/rsc/producer v0.0.0
	github.com/redis/go-redis/v9 v9.23.0
	github.com/twmb/franz-go v1.22.3
	github.com/twmb/franz-go/pkg/kmsg v1.15.1
	golang.org/x/mod v0.43.0
)

require (
	github.com/Rican7/retry v0.3.1 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/golang/protobuf v1.5.4 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/klauspost/compress v1.20.3 // indirect
	github.com/lithammer/shortuuid/v3 v3.0.7 // indirect
	github.com/oklog/ulid v1.3.1 // indirect
	github.com/pierrec/lz4/v4 v4.1.33 // indirect
	github.com/pkg/errors v0.9.1 // indirect
	github.com/vmihailenco/msgpack v4.0.4+incompatible // indirect
	go.uber.org/atomic v1.12.0 // indirect
	golang.org/x/sys v0.48.0 // indirect
	google.golang.org/appengine v1.6.8 // indirect
	google.golang.org/protobuf v1.36.8 // indirect
	gopkg.in/check.v1 v1.0.0-20201130134442-10cb98267c6c // indirect
)

replace github.com/redis-stream-coordinator/rsc/core => ../core

replace github.com/redis-stream-coordinator/rsc/adapters/redis => ../adapters/redis

replace github.com/redis-stream-coordinator/rsc/adapters/http => ../adapters/http

replace github.com/redis-stream-coordinator/rsc/coordinator => ../coordinator

replace github.com/redis-stream-coordinator/rsc/consumer => ../consumer

replace github.com/redis-stream-coordinator/rsc/producer => ../producer
