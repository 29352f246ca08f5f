-- KEYS: mutex. ARGV: token, milliseconds to live. Returns whether it is held
-- with this token now. It may have been before, when the reply was lost.
local token = redis.call('GET', KEYS[1])
if token and token ~= ARGV[1] then
  return 0
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
