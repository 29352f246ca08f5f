-- Trims a stream by what all of its groups are done with, at once with looking at
-- them, so nothing can be delivered in between that is then removed.
--
-- KEYS[1] the stream; ARGV: our group, the most records to remove, the records to
-- keep, the milliseconds to keep them.
-- Returns nil without the stream or our group, else the records removed, those
-- left, the group that needs the oldest record, and the id from which on it does.

-- The halves of ids exceed what a number here can hold: they stay text, and the
-- longer one is the greater one.
local function before(a, b)
  if #a ~= #b then return #a < #b end
  return a < b
end

local function less(a, b)
  local ams, aseq = string.match(a, '^(%d+)-(%d+)$')
  local bms, bseq = string.match(b, '^(%d+)-(%d+)$')
  if ams ~= bms then return before(ams, bms) end
  return before(aseq, bseq)
end

local function increment(n)
  local i = #n
  while i > 0 and string.byte(n, i) == 57 do i = i - 1 end
  local zeros = string.rep('0', #n - i)
  if i == 0 then return '1' .. zeros end
  return string.sub(n, 1, i - 1) .. string.char(string.byte(n, i) + 1) .. zeros
end

local last = '18446744073709551615'
local function after(id)
  local ms, seq = string.match(id, '^(%d+)-(%d+)$')
  if seq ~= last then return ms .. '-' .. increment(seq) end
  if ms ~= last then return increment(ms) .. '-0' end
  return id
end

local key = KEYS[1]
if redis.call('EXISTS', key) == 0 then return false end

local ours, from, holder, delivered = false, nil, '', nil
for _, fields in ipairs(redis.call('XINFO', 'GROUPS', key)) do
  local group = {}
  for i = 1, #fields, 2 do group[fields[i]] = fields[i + 1] end
  if group['name'] == ARGV[1] then ours = true end
  -- What is pending may lie beyond what was delivered, when a group was set back.
  local need = after(group['last-delivered-id'])
  if group['pending'] > 0 then
    local oldest = redis.call('XPENDING', key, group['name'])[2]
    if oldest and less(oldest, need) then need = oldest end
  end
  if from == nil or less(need, from) then
    from, holder, delivered = need, group['name'], group['pending'] == 0
  end
end
if not ours then return false end

-- It needs nothing if all was delivered and acknowledged.
if delivered and #redis.call('XRANGE', key, from, '+', 'COUNT', 1) == 0 then holder = '' end

local minimum = from
local keep = tonumber(ARGV[4])
if keep > 0 then
  local now = redis.call('TIME')
  local oldest = now[1] * 1000 + math.floor(now[2] / 1000) - keep
  local bound = string.format('%.0f-0', math.max(oldest, 0))
  if less(bound, minimum) then minimum = bound end
end

local length, removed = redis.call('XLEN', key), 0
local most = math.min(tonumber(ARGV[2]), length - tonumber(ARGV[3]))
if most > 0 then
  removed = redis.call('XTRIM', key, 'MINID', '~', minimum, 'LIMIT', most)
end
if holder == '' then from = '' end
return {removed, length - removed, holder, from}
