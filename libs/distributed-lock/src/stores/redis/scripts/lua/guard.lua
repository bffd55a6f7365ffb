-- guard.lua: notices by a mark that is gone that the server came back without its data, and sets it anew.
--
-- KEYS  1 mark: "server time from which on locks are granted, length of the wait before it"
-- ARGV  1 longest lease
-- Reply  {ms until locks are granted, now}
--
-- Times in ms. The mark never expires. One further ahead than it is long is from before the clock was set back; who
-- knows of longer leases than whoever set it makes it longer.

local longest = tonumber(ARGV[1])

--@include lib/time.lua
--@include lib/numbers.lua

local open_from, length = string.match(redis.call('GET', KEYS[1]) or '', '^(%d+) (%d+)$')
open_from, length = tonumber(open_from), tonumber(length or 0)
local is_lost = not open_from or open_from - now > length
if is_lost or longest > length then
  open_from = is_lost and now + math.max(longest, length) or open_from + longest - length
  redis.call('SET', KEYS[1], text(open_from) .. ' ' .. text(math.max(longest, length)))
end
return { math.max(0, open_from - now), now }
