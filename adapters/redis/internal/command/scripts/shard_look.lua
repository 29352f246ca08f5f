-- KEYS: shard. Returns what it holds at one moment, nil where there is no stream: the
-- last generated id, the number of entries, and a list for each consumer group: name,
-- pending entries, the first of them, the first entry that was not handed out, how many
-- of those there are at least, and what the server says of that.

-- Entries are counted up to so many, and about so many bytes, as each is copied in here.
local MOST, BYTES = 100, 16384

local function size(entry)
  local n = #entry[1]
  for _, text in ipairs(entry[2]) do
    n = n + #text
  end
  return n
end

-- unread counts the entries that a group was not given, of which head is the first.
local function unread(info, group, head)
  local first = info['first-entry']
  if first and first[1] == head[1] then
    return info['length']
  end
  local count = math.min(MOST, math.floor(BYTES / size(head)))
  if count < 2 then
    return 1
  end
  return #behind(KEYS[1], group, count)
end

local info = stream(KEYS[1])
if not info then
  return false
end
local reply = {info['last-generated-id'], info['length']}
for _, group in ipairs(groups(KEYS[1])) do
  local oldest, head, count = false, false, 0
  if group['pending'] > 0 then
    oldest = redis.call('XPENDING', KEYS[1], group['name'], '-', '+', 1)[1][1]
  end
  if info['length'] > 0 then
    local found = behind(KEYS[1], group, 1)[1]
    if found then
      head, count = found[1], unread(info, group, found)
    end
  end
  reply[#reply + 1] = {group['name'], group['pending'], oldest, head, count, group['lag'] or false}
end
return reply
