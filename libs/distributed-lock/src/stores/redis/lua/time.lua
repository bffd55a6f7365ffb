-- time.lua: shared by all scripts that write; not a script of its own. The server's clock, and numbers as text.

local KEEP_MS = 10000 -- line and info outlive the last look by this

local time = redis.call('TIME')
local micros = time[1] * 1000000 + time[2]
local now = math.floor(micros / 1000)

-- Lua's own conversion to text keeps 14 digits: two tokens of one millisecond would read the same.
local function text(number)
  return string.format('%.0f', number)
end
