-- restart-guard.lua: a part of acquire; not a script of its own. A missing mark shows that the server has lost its data. The script
-- then sets the mark anew. Expects time.lua and the locals mark, longest. Sets left: for how many ms nothing is granted, because
-- leases that the server has forgotten may not have expired.
--
-- The mark is "time from which on locks are granted, length of the wait before it", and never expires. If that time is further
-- ahead than the length of the wait, the server's clock was set back since, and the mark counts as missing. A client with longer
-- leases than the mark's length makes the wait longer.

local open_from, length = string.match(redis.call('GET', mark) or '', '^(%d+) (%d+)$')
open_from, length = tonumber(open_from), tonumber(length or 0)
local is_lost = not open_from or open_from - now > length
if is_lost or longest > length then
  open_from = is_lost and now + math.max(longest, length) or open_from + longest - length
  redis.call('SET', mark, open_from .. ' ' .. math.max(longest, length))
end
local left = open_from - now
