-- What the scripts on records share; it stands in front of each of them.
--
-- ARGV[1] is the instance to answer with where the server cannot tell, empty
-- where INFO can be asked. ARGV[2], [3] and [4] are a version: instance,
-- revision, nonce. Revisions are compared as text and never calculated with:
-- Lua's numbers would round them.

-- How many arguments one command is given. Lua's stack holds 8000 on Redis and
-- 5000 in some emulators.
local CHUNK = 1000

-- instance returns the id of the server that carries this script out.
local function instance()
  if ARGV[1] ~= '' then
    return ARGV[1]
  end
  local info = redis.call('INFO', 'server')
  local _, last = string.find(info, 'run_id:', 1, true)
  if not last then
    error('INFO server has no run_id')
  end
  return string.sub(info, last + 1, last + 40)
end

-- holds tells whether the record at key is at the version in ARGV; with
-- revision 0, whether there is none.
local function holds(key, here)
  if ARGV[2] ~= '' and ARGV[2] ~= here then
    return false
  end
  if ARGV[3] == '0' then
    return redis.call('EXISTS', key) == 0
  end
  local at = redis.call('HMGET', key, 'revision', 'nonce')
  return at[1] == ARGV[3] and (at[2] or '') == ARGV[4]
end

-- The lists at the end of ARGV begin with the number of their elements. Each of
-- these functions handles the list at position at and returns the position
-- after it.

-- put writes fields and values.
local function put(key, at)
  local last = at + ARGV[at]
  for i = at + 1, last, CHUNK do
    redis.call('HSET', key, unpack(ARGV, i, math.min(i + CHUNK - 1, last)))
  end
  return last + 1
end

-- drop removes fields, from two keys if there is a second.
local function drop(at, key, second)
  local last = at + ARGV[at]
  for i = at + 1, last, CHUNK do
    redis.call('HDEL', key, unpack(ARGV, i, math.min(i + CHUNK - 1, last)))
    if second then
      redis.call('HDEL', second, unpack(ARGV, i, math.min(i + CHUNK - 1, last)))
    end
  end
  return last + 1
end

-- announce publishes the text after the channel at position at, if there is a
-- channel, and returns whether that worked. What was written stays written where
-- it does not: others then see it a little later.
local function announce(at)
  if ARGV[at] == '' then
    return 1
  end
  local sent = redis.pcall('PUBLISH', ARGV[at], ARGV[at + 1])
  return type(sent) == 'number' and 1 or 0
end
