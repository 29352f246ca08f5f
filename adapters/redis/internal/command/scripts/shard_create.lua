-- KEYS: shard. Creates an empty stream where there is no key. Only a consumer
-- group can do that without a record, so one is made and removed again.
if redis.call('EXISTS', KEYS[1]) == 0 then
  redis.call('XGROUP', 'CREATE', KEYS[1], 'provisioning', '0', 'MKSTREAM')
  redis.call('XGROUP', 'DESTROY', KEYS[1], 'provisioning')
end
return redis.call('TYPE', KEYS[1])
