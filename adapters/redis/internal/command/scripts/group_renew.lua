-- KEYS: metadata, live, report. ARGV[2] to [4] is the version expected, then
-- the lists: stamps, stamps to remove, reports.
-- Returns whether it was written.
if not holds(KEYS[1], instance()) then
  return 0
end
-- A key of another type must end the script while nothing is written yet.
redis.call('HLEN', KEYS[3])
local at = put(KEYS[2], 5)
at = drop(at, KEYS[2])
put(KEYS[3], at)
return 1
