package command

import (
	"crypto/sha1" //nolint:gosec // what Redis calls a script by
	_ "embed"     // the scripts
	"encoding/hex"
)

// script is the text of a script, with the digest that servers know it by.
type script struct{ text, digest string }

func newScript(text string) *script {
	sum := sha1.Sum([]byte(text)) //nolint:gosec // what Redis calls a script by
	return &script{text: text, digest: hex.EncodeToString(sum[:])}
}

// call asks for a script on keys, all of them in the slot of the first.
func (s *script) call(keys []string, args []any) *call {
	all := append(make([]any, 0, 3+len(keys)+len(args)), "evalsha", s.digest, len(keys))
	for _, key := range keys {
		all = append(all, key)
	}
	return &call{key: keys[0], args: append(all, args...), script: s, needs: storeRules}
}

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
	//go:embed scripts/value_replace.lua
	valueReplaceText string
	//go:embed scripts/hash_create.lua
	hashCreateText string
	//go:embed scripts/list_append.lua
	listAppendText string
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

	//go:embed scripts/shard_prelude.lua
	shardPrelude string
	//go:embed scripts/shard_look.lua
	shardLookText string
	//go:embed scripts/shard_retire.lua
	shardRetireText string
	//go:embed scripts/shard_renew.lua
	shardRenewText string
)

var (
	groupLoad    = newScript(prelude + groupLoadText)
	groupSave    = newScript(prelude + groupSaveText)
	groupRenew   = newScript(prelude + groupRenewText)
	streamLoad   = newScript(prelude + streamLoadText)
	streamSave   = newScript(prelude + streamSaveText)
	recordDelete = newScript(prelude + recordDeleteText)
	readInstance = newScript(prelude + instanceText)

	instanceProbe = newScript(instanceProbeText)
	valueReplace  = newScript(valueReplaceText)
	hashCreate    = newScript(hashCreateText)
	listAppend    = newScript(listAppendText)
	mutexLock     = newScript(mutexLockText)
	mutexRenew    = newScript(mutexRenewText)
	mutexUnlock   = newScript(mutexUnlockText)

	shardLook   = newScript(shardPrelude + shardLookText)
	shardRetire = newScript(shardPrelude + shardRetireText)
	shardRenew  = newScript(shardPrelude + shardRenewText)
)

// storeRules are the commands that the scripts of the store, the mutex and the audit
// carry out, as rules of an ACL.
const storeRules = "+info +exists +get +set +del +hget +hmget +hgetall +hset +hdel +hlen +pexpire +publish +rpush +ltrim"
