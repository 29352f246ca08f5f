-- KEYS: the record and what lies beside it. ARGV[2] to [4] is the version
-- expected, then channel and text of the announcement. Returns whether it was
-- deleted, and whether that was announced.
if not holds(KEYS[1], instance()) then
  return { 0, 1 }
end
redis.call('DEL', unpack(KEYS))
return { 1, announce(5) }
