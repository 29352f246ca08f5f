-- KEYS: mutex. ARGV: token, milliseconds to live. Returns whether it is still
-- held with this token.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
