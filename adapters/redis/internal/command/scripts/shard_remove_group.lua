-- KEYS: shard. ARGV: group. Removes the group when the key is a stream.
if redis.call('TYPE', KEYS[1]).ok == 'stream' then
  return redis.call('XGROUP', 'DESTROY', KEYS[1], ARGV[1])
end
return 0
