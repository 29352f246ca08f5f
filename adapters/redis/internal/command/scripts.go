package command

import (
	_ "embed" // the scripts

	"github.com/redis/go-redis/v9"
)

//go:embed scripts/prelude.lua
var prelude string

var (
	//go:embed scripts/group_load.lua
	groupLoadText string
	//go:embed scripts/group_save.lua
	groupSaveText string
	//go:embed scripts/group_renew.lua
	groupRenewText string
	//go:embed scripts/stream_load.lua
	streamLoadText string
	//go:embed scripts/stream_save.lua
	streamSaveText string
	//go:embed scripts/record_delete.lua
	recordDeleteText string
	//go:embed scripts/instance.lua
	instanceText string

	//go:embed scripts/instance_probe.lua
	instanceProbeText string
	//go:embed scripts/hash_create.lua
	hashCreateText string
	//go:embed scripts/mutex_lock.lua
	mutexLockText string
	//go:embed scripts/mutex_renew.lua
	mutexRenewText string
	//go:embed scripts/mutex_unlock.lua
	mutexUnlockText string
	//go:embed scripts/shard_create.lua
	shardCreateText string
	//go:embed scripts/shard_remove.lua
	shardRemoveText string
	//go:embed scripts/shard_remove_group.lua
	shardRemoveGroupText string
)

var (
	groupLoad    = redis.NewScript(prelude + groupLoadText)
	groupSave    = redis.NewScript(prelude + groupSaveText)
	groupRenew   = redis.NewScript(prelude + groupRenewText)
	streamLoad   = redis.NewScript(prelude + streamLoadText)
	streamSave   = redis.NewScript(prelude + streamSaveText)
	recordDelete = redis.NewScript(prelude + recordDeleteText)
	readInstance = redis.NewScript(prelude + instanceText)

	instanceProbe = redis.NewScript(instanceProbeText)
	hashCreate    = redis.NewScript(hashCreateText)
	mutexLock     = redis.NewScript(mutexLockText)
	mutexRenew    = redis.NewScript(mutexRenewText)
	mutexUnlock   = redis.NewScript(mutexUnlockText)
)
