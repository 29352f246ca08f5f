-- KEYS: shard. ARGV: the last id that was generated in it when it was looked at, empty
-- when there was no stream; 1 to remove it with whatever it holds; how many consumer
-- groups it is busy without while it holds entries, and their names; the names of those
-- that nobody waits for. Removes the stream if nobody misses anything. What is no stream
-- is no shard, and stays.
local info = stream(KEYS[1])
if not info then
  return 'gone'
end
if info['last-generated-id'] ~= ARGV[1] then
  return 'kept'
end
if ARGV[2] ~= '1' then
  local last = 3 + ARGV[3]
  local ignored = {}
  for i = last + 1, #ARGV do
    ignored[ARGV[i]] = true
  end
  local present = {}
  local read = info['length'] == 0
  for _, group in ipairs(groups(KEYS[1])) do
    present[group['name']] = true
    if not ignored[group['name']] then
      read = true
      if group['pending'] > 0 or behind(KEYS[1], group, 1)[1] then
        return 'busy'
      end
    end
  end
  if not read then
    return 'busy'
  end
  for i = 4, last do
    if info['length'] > 0 and not present[ARGV[i]] then
      return 'busy'
    end
  end
end
redis.call('UNLINK', KEYS[1])
return 'gone'
