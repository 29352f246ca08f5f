-- KEYS: mutex. ARGV: token. Returns whether it was held with this token.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
return redis.call('DEL', KEYS[1])
