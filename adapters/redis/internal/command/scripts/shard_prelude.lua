-- What the scripts on a removed shard share; it stands in front of each of them.

-- The highest number in an id; behind the highest id nothing lies, and it cannot be asked
-- what does.
local MAXIMUM = '18446744073709551615'
local HIGHEST = MAXIMUM .. '-' .. MAXIMUM

-- fields returns names and values, which come by turns, as a table.
local function fields(list)
  local named = {}
  for i = 1, #list, 2 do
    named[list[i]] = list[i + 1]
  end
  return named
end

-- stream returns what the server says of the stream at key, nil where there is none.
local function stream(key)
  if redis.call('TYPE', key).ok ~= 'stream' then
    return nil
  end
  local info = fields(redis.call('XINFO', 'STREAM', key))
  if info['last-generated-id'] == '' then
    info['last-generated-id'] = '0-0' -- some emulators have none before the first entry
  end
  return info
end

-- groups returns what the server says of the consumer groups at key.
local function groups(key)
  local list = redis.call('XINFO', 'GROUPS', key)
  for i = 1, #list do
    list[i] = fields(list[i])
  end
  return list
end

-- behind returns the first entries that a group was not given, up to so many. They are
-- looked for: the server's own count is null after deletions and wrong after trims.
local function behind(key, group, count)
  local at = group['last-delivered-id']
  if at == HIGHEST then
    return {}
  end
  return redis.call('XRANGE', key, '(' .. at, '+', 'COUNT', count)
end
