-- time.lua: shared by all scripts; not a script of its own. The server's clock, for how long keys are kept, and numbers as text.

local KEEP_MS = 10000 -- the queue and its hash of waiter options outlive the last recheck by this
local TOKEN_KEEP_MS = '86400000' -- tokens fall back on the clock after this; longer leases keep them longer
local FARTHEST_AHEAD = 86400000000 -- micros; a token that is further ahead of the clock was not made by it

local time = redis.call('TIME')
local micros = time[1] * 1000000 + time[2]
local now = (micros - micros % 1000) / 1000

-- Lua's own conversion to text keeps 14 digits: two tokens of one millisecond would read the same.
local function text(number)
  return string.format('%.0f', number)
end

local function token_keep(lease)
  return text(math.max(TOKEN_KEEP_MS, 2 * lease))
end
