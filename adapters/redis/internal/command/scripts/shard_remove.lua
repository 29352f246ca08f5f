-- KEYS: shard. Removes the key when it is a stream.
if redis.call('TYPE', KEYS[1]).ok == 'stream' then
  return redis.call('UNLINK', KEYS[1])
end
return 0
