-- Stores a record and removes the oldest ones beyond a limit.
-- ARGV: the limit; '~' or '=' as for MAXLEN; how many records may gather over the
-- limit between two removals; then the fields. Answers as XADD NOMKSTREAM does; when
-- records were removed, the id is followed by their number, and by how many of
-- them some group had not been given.
-- Everything that can be refused comes before the record is stored: an error
-- means that it was not.
local key, limit, chunk = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[3])
local length = redis.pcall('XLEN', key)
if type(length) ~= 'number' then return length end
local over = length + 1 - limit
if over < chunk or over % chunk ~= 0 then
  return redis.pcall('XADD', key, 'NOMKSTREAM', '*', unpack(ARGV, 4))
end
-- A limit set on a long stream takes effect bit by bit: a script blocks the server.
over = math.min(over, 1000)

-- Ids are compared as text: a number of Lua has too few digits.
local function before(a, b)
  local ams, aseq = string.match(a, '^(%d+)-(%d+)$')
  local bms, bseq = string.match(b, '^(%d+)-(%d+)$')
  if #ams ~= #bms then return #ams < #bms end
  if ams ~= bms then return ams < bms end
  if #aseq ~= #bseq then return #aseq < #bseq end
  return aseq < bseq
end

-- The position of the group that is furthest behind.
local groups = redis.pcall('XINFO', 'GROUPS', key)
if groups.err then return groups end
local position
for _, group in ipairs(groups) do
  for i = 1, #group, 2 do
    if group[i] == 'last-delivered-id' and (not position or before(group[i + 1], position)) then
      position = group[i + 1]
    end
  end
end

-- How many of the oldest records every group was given, as far as that matters.
local given = over
local unread = redis.pcall('XRANGE', key, '(' .. (position or '0-0'), '+', 'COUNT', 1)
if unread.err then return unread end
if #unread > 0 then
  local first, from, seen = unread[1][1], '-', 0
  given = nil
  while not given and seen < over do
    local page = redis.call('XRANGE', key, from, '+', 'COUNT', math.min(10, over - seen))
    for _, record in ipairs(page) do
      if record[1] == first then given = seen break end
      seen = seen + 1
    end
    if #page == 0 then break end
    from = '(' .. page[#page][1]
  end
  given = given or over
end

local id = redis.pcall('XADD', key, 'NOMKSTREAM', 'MAXLEN', ARGV[2], length + 1 - over, '*', unpack(ARGV, 4))
if type(id) ~= 'string' then return id end
local dropped = length + 1 - redis.call('XLEN', key)
if dropped == 0 then return id end
return id .. ' ' .. dropped .. ' ' .. math.max(0, dropped - given)
