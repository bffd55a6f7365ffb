-- force.lua: takes the lock from whoever holds it; the holder is told if it is ours, and the next in line is granted.
--
-- KEYS  1 lock  2 line  3 info  4 token  5 channel
-- ARGV  1 floor  2 cluster  3 publish
-- Reply  {was held (0 or 1), now}

local floor, cluster, publish = tonumber(ARGV[1]), ARGV[2] == '1', ARGV[3]

--@include time.lua
--@include tokens.lua
--@include grant.lua

local holder = redis.call('HKEYS', KEYS[1])[1]
local was_held = redis.call('DEL', KEYS[1])
if holder and is_ours(holder) then push(holder, 'lost ' .. holder) end
redis.call('HDEL', KEYS[3], 'granted')
if was_held == 1 or redis.call('EXISTS', KEYS[2]) == 1 then pass_on() end
return { was_held, now }
