-- guard.lua: notices by a mark that is gone that the server came back without its data, and sets it anew.
--
-- KEYS  1 mark: the server time from which on locks are granted
-- ARGV  1 longest lease
-- Reply  {ms until locks are granted, now}
--
-- Times in ms. The mark never expires; one further ahead than the longest lease is from before the clock was set back.

local longest = tonumber(ARGV[1])

--@include time.lua

local open_from = tonumber(redis.call('GET', KEYS[1]) or '')
if not open_from or open_from - now > longest then
  open_from = now + longest
  redis.call('SET', KEYS[1], text(open_from))
end
return { math.max(0, open_from - now), now }
