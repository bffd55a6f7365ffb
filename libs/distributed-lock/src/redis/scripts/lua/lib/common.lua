-- common.lua: shared by all scripts; not a script of its own. The server's clock, for how long keys are kept, and numbers as text.

local KEEP_MS = 10000 -- the queue and its notes outlive the last recheck by this
local TOKEN_KEEP_MS = '86400000' -- tokens fall back on the clock after this; longer leases keep them longer
local FARTHEST_AHEAD = 86400000000 -- micros; a token that is further ahead of the clock was not made by it

-- The field of the hash of notes that names the owner that was granted the lock by a notification and has not confirmed it yet.
local UNCONFIRMED = 'granted'

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
