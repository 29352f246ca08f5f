-- Returns the run id of the server, nil where INFO is missing, forbidden, or
-- does not tell.
local info = redis.pcall('INFO', 'server')
if type(info) ~= 'string' then
  return false
end
return string.match(info, 'run_id:(%x+)') or false
