-- KEYS: the record and what lies beside it. ARGV[2] to [4] is the version
-- expected. Returns whether it was deleted.
if not holds(KEYS[1], instance()) then
  return 0
end
redis.call('DEL', unpack(KEYS))
return 1
