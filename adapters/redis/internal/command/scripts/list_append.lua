-- KEYS: a list. ARGV: what to put at its end, how many of the newest to keep.
redis.call('RPUSH', KEYS[1], ARGV[1])
redis.call('LTRIM', KEYS[1], '-' .. ARGV[2], -1)
