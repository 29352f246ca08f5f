-- Removes consumer names that own nothing, at once with looking at them: what a
-- consumer has pending is lost with its name.
--
-- KEYS[1] the stream; ARGV: the group, our own name, the milliseconds that a name
-- must have been idle, the most names to remove.
-- Returns the names removed, nil without the stream.
local key, group, own = KEYS[1], ARGV[1], ARGV[2]
if redis.call('EXISTS', key) == 0 then return false end
local removed = {}
for _, fields in ipairs(redis.call('XINFO', 'CONSUMERS', key, group)) do
  local consumer = {}
  for i = 1, #fields, 2 do consumer[fields[i]] = fields[i + 1] end
  if consumer['name'] ~= own and consumer['pending'] == 0 and consumer['idle'] >= tonumber(ARGV[3]) then
    redis.call('XGROUP', 'DELCONSUMER', key, group, consumer['name'])
    removed[#removed + 1] = consumer['name']
    if #removed >= tonumber(ARGV[4]) then break end
  end
end
return removed
