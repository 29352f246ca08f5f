-- KEYS: metadata, live. ARGV[2] to [4] is the version that the caller knows,
-- ARGV[5] how many replicas are to have what is returned, which WAIT is asked for
-- next.
-- Returns instance, whether the record exists, revision, nonce, aggregate (nil
-- when it is known), and the stamps as a flat list.
local here = instance()
if redis.call('EXISTS', KEYS[1]) == 0 then
  return { here, 0, false, false, false, {} }
end
local at = redis.call('HMGET', KEYS[1], 'revision', 'nonce')
local known = ARGV[2] == here and ARGV[3] == at[1] and ARGV[4] == (at[2] or '')
local aggregate = not known and redis.call('HGET', KEYS[1], 'aggregate')
if aggregate and ARGV[5] ~= '0' then
  -- WAIT waits for what this connection wrote. So something is written, as it is
  -- already, after all that is returned.
  redis.call('HSET', KEYS[1], 'revision', at[1])
end
return { here, 1, at[1], at[2], aggregate, redis.call('HGETALL', KEYS[2]) }
