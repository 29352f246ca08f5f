-- KEYS: shard. ARGV: where consumer groups begin, and their names. Creates what is
-- missing, and gives the stream a last generated id that no earlier look at this key has
-- seen. Returns the type of the key.

-- plus adds one to a decimal number that may be too large for Lua's numbers.
local function plus(number)
  local head, digit, nines = string.match(number, '^(%d-)([0-8]?)(9*)$')
  if digit == '' then
    return '1' .. string.rep('0', #nines)
  end
  return head .. (digit + 1) .. string.rep('0', #nines)
end

-- create makes a consumer group, and its stream, unless it exists. It returns what is
-- wrong.
local function create(name)
  local made = redis.pcall('XGROUP', 'CREATE', KEYS[1], name, ARGV[1], 'MKSTREAM')
  if made.err and not string.find(made.err, 'BUSYGROUP', 1, true) then
    return made
  end
end

local kind = redis.call('TYPE', KEYS[1]).ok
if kind ~= 'none' and kind ~= 'stream' then
  return redis.status_reply(kind)
end
for i = 2, #ARGV do
  local failed = create(ARGV[i])
  if failed then
    return failed
  end
end
if #ARGV == 1 and kind == 'none' then
  -- Without a record, only a consumer group creates a stream.
  redis.call('XGROUP', 'CREATE', KEYS[1], 'provisioning', '0', 'MKSTREAM')
  redis.call('XGROUP', 'DESTROY', KEYS[1], 'provisioning')
end

local id
if kind == 'none' then
  -- A fresh stream begins at 0-0, as one did that was here before: it takes the time.
  local now = redis.call('TIME')
  id = now[1] .. string.format('%03d', math.floor(now[2] / 1000)) .. '-0'
else
  local ms, seq = string.match(stream(KEYS[1])['last-generated-id'], '^(%d+)-(%d+)$')
  if seq ~= MAXIMUM then
    id = ms .. '-' .. plus(seq)
  elseif ms ~= MAXIMUM then
    id = plus(ms) .. '-0'
  else
    return redis.error_reply('ERR the stream has reached the highest id and takes no more records: remove it')
  end
end
local set = redis.pcall('XSETID', KEYS[1], id)
if set.err then
  if not string.find(set.err, 'Unknown Redis command', 1, true) then
    return set
  end
  -- Some emulators have no XSETID.
  redis.call('XADD', KEYS[1], id, 'renewed', '')
  redis.call('XDEL', KEYS[1], id)
end
return redis.status_reply('stream')
