-- renew.lua: restarts the lease of this owner under this grant, and confirms a grant that was pushed.
--
-- KEYS  1 lock  2 line  3 info  4 token  5 channel
-- ARGV  1 owner  2 lease  3 first  4 last  5 publish  6 notAfter
-- Reply  {0, now}           lost: held by another, by nobody, or by this owner under another grant
--        {1, now, waiting}  renewed; waiting counts our line, and a stranger that listens as one
--        {2, now}           too late: nothing was done, so that no old renewal shortens the lease of a newer one
--
-- A token key that is gone (evicted) is written back: the owner in the lock is proof enough.

local time = redis.call('TIME')
local now = math.floor((time[1] * 1000000 + time[2]) / 1000)

if now > tonumber(ARGV[6]) then return { 2, now } end
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return { 0, now } end

local keep = string.format('%.0f', math.max(86400000, 2 * tonumber(ARGV[2])))
local tokens = redis.call('GET', KEYS[4])
if tokens and string.match(tokens, '^%d+') ~= ARGV[3] then return { 0, now } end
if tokens then
  redis.call('PEXPIRE', KEYS[4], keep)
else
  redis.call('SET', KEYS[4], ARGV[3] .. ' ' .. ARGV[4], 'PX', keep)
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
redis.call('HDEL', KEYS[3], 'granted')

local count = ARGV[5] == 'SPUBLISH' and 'SHARDNUMSUB' or 'NUMSUB'
local strangers = redis.call('PUBSUB', count, KEYS[5])[2]
return { 1, now, redis.call('ZCARD', KEYS[2]) + math.min(strangers, 1) }
