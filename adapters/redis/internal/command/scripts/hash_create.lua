-- KEYS: a hash. ARGV: fields and values. Returns whether it was written: only
-- where there was no such key.
if redis.call('EXISTS', KEYS[1]) == 1 then
  return 0
end
redis.call('HSET', KEYS[1], unpack(ARGV))
return 1
