-- KEYS: metadata, live. ARGV[2] to [4] is the version that the caller knows.
-- Returns instance, whether the record exists, revision, nonce, aggregate (nil
-- when it is known), and the stamps as a flat list.
local here = instance()
if redis.call('EXISTS', KEYS[1]) == 0 then
  return { here, 0, false, false, false, {} }
end
local at = redis.call('HMGET', KEYS[1], 'revision', 'nonce')
local known = ARGV[2] == here and ARGV[3] == at[1] and ARGV[4] == (at[2] or '')
local aggregate = not known and redis.call('HGET', KEYS[1], 'aggregate')
return { here, 1, at[1], at[2], aggregate, redis.call('HGETALL', KEYS[2]) }
