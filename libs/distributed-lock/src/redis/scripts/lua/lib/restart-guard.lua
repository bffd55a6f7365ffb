-- restart-guard.lua: a part of acquire; not a script of its own. Notices by a mark that is gone that the server has lost its
-- data, and sets the mark anew. Expects time.lua and the locals mark, longest; sets left: for how many
-- ms nothing is granted, because leases that the server has forgotten may not have expired.
--
-- The mark is "time from which on locks are granted, length of the wait before it", and never expires. A mark further ahead
-- than its length is from before the clock was set back. A client with longer leases than the mark knows makes it longer.

local open_from, length = string.match(redis.call('GET', mark) or '', '^(%d+) (%d+)$')
open_from, length = tonumber(open_from), tonumber(length or 0)
local is_lost = not open_from or open_from - now > length
if is_lost or longest > length then
  open_from = is_lost and now + math.max(longest, length) or open_from + longest - length
  redis.call('SET', mark, open_from .. ' ' .. math.max(longest, length))
end
local left = open_from - now
