-- KEYS: metadata, live, report. ARGV[2] to [4] is the version expected, then
-- revision, nonce, aggregate, schemaVersion, layoutVersion, updatedAt, and the
-- lists: stamps relied on, stamps, stamps to remove, reports, ended lives, then
-- channel and text of the announcement.
-- Returns whether it was written, the instance, and whether it was announced.
local here = instance()
if not holds(KEYS[1], here) then
  return { 0, here, 1 }
end
local last = 11 + ARGV[11]
for i = 12, last, 2 do
  if (redis.call('HGET', KEYS[2], ARGV[i]) or '') ~= ARGV[i + 1] then
    return { 0, here, 1 }
  end
end
-- A key of another type must end the script while nothing is written yet.
redis.call('HLEN', KEYS[2])
redis.call('HLEN', KEYS[3])

-- The first write is one that a server without memory refuses. After it Redis
-- refuses none of a script's, so all are done or none.
redis.call('HSET', KEYS[1], 'aggregate', ARGV[7], 'revision', ARGV[5], 'nonce', ARGV[6],
  'schemaVersion', ARGV[8], 'layoutVersion', ARGV[9], 'updatedAt', ARGV[10])
if ARGV[3] == '0' then
  -- Whatever lies beside a group that did not exist is not of this group.
  redis.call('DEL', KEYS[2], KEYS[3])
end
local at = put(KEYS[2], last + 1)
at = drop(at, KEYS[2])
at = put(KEYS[3], at)
at = drop(at, KEYS[2], KEYS[3])
return { 1, here, announce(at) }
