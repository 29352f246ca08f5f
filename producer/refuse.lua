-- Stores a record in a stream that has fewer than ARGV[1] records.
-- ARGV: the limit, then the fields. Answers the id, or nil when there is no such
-- stream, as XADD NOMKSTREAM does.
local length = redis.pcall('XLEN', KEYS[1])
if type(length) ~= 'number' then return length end
if length >= tonumber(ARGV[1]) then
  return redis.error_reply('RSCFULL the stream has ' .. length .. ' records')
end
return redis.pcall('XADD', KEYS[1], 'NOMKSTREAM', '*', unpack(ARGV, 2))
