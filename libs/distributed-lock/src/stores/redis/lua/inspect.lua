-- inspect.lua: who holds the lock and who waits for it. Changes nothing.
--
-- KEYS  1 lock  2 line  3 info  4 token  5 channel
-- ARGV
-- Reply  {holder or '', now, remaining, last token or '', owners in line ...}

local time = redis.call('TIME')
local now = math.floor((time[1] * 1000000 + time[2]) / 1000)
local holder = redis.call('HKEYS', KEYS[1])[1]
local tokens = redis.call('GET', KEYS[4])
local reply = { holder or '', now, redis.call('PTTL', KEYS[1]), tokens and string.match(tokens, '%d+$') or '' }
for _, owner in ipairs(redis.call('ZRANGE', KEYS[2], 0, -1)) do
  reply[#reply + 1] = owner
end
return reply
