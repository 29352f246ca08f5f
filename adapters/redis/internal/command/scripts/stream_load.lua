-- KEYS: stream. Returns instance, whether the record exists, revision, nonce,
-- record.
local here = instance()
if redis.call('EXISTS', KEYS[1]) == 0 then
  return { here, 0, false, false, false }
end
local at = redis.call('HMGET', KEYS[1], 'revision', 'nonce', 'record')
return { here, 1, at[1], at[2], at[3] }
