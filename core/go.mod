module github.com/redis-stream-coordinator/rsc/core

go 1.25
