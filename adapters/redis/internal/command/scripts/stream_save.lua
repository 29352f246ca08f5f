-- KEYS: stream. ARGV[2] to [4] is the version expected, then revision, nonce,
-- record, layoutVersion. Returns whether it was written, and the instance.
local here = instance()
if not holds(KEYS[1], here) then
  return { 0, here }
end
redis.call('HSET', KEYS[1], 'record', ARGV[7], 'revision', ARGV[5], 'nonce', ARGV[6], 'layoutVersion', ARGV[8])
return { 1, here }
