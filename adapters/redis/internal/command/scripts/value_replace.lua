-- KEYS: a string. ARGV: what it is expected to be, what it is to be then.
-- Returns what it is now.
if redis.call('GET', KEYS[1]) == ARGV[1] then
  redis.call('SET', KEYS[1], ARGV[2])
end
return redis.call('GET', KEYS[1])
