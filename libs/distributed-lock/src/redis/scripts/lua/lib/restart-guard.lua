-- restart-guard.lua: a part of acquire; not a script of its own. Defines left: for how many ms the server grants nothing yet, because it may
-- have lost its data. Expects KEYS 6 mark, ARGV 6 longest, and common.lua.
--
-- A missing mark shows that the server has lost its data, and is then set anew. The mark is "time from which on locks are granted, length
-- of the wait before it", and never expires. If that time is further ahead than the length of the wait, the server's clock was set back
-- since, and the mark counts as missing. A client with longer leases than the mark's length makes the wait longer.

local mark, longest = KEYS[6], tonumber(ARGV[6])
local open_from, length = string.match(redis.call('GET', mark) or '', '^(%d+) (%d+)$')
open_from, length = tonumber(open_from), tonumber(length or 0)
local is_lost = not open_from or open_from - now > length
if is_lost or longest > length then
  open_from = is_lost and now + math.max(longest, length) or open_from + longest - length
  redis.call('SET', mark, open_from .. ' ' .. math.max(longest, length))
end
local left = open_from - now
