-- numbers.lua: shared by the scripts that write numbers; not a script of its own. Expects time.lua.

-- Lua's own conversion to text keeps 14 digits: two tokens of one millisecond would read the same.
local function text(number)
  return string.format('%.0f', number)
end

local function token_keep(lease)
  return text(math.max(TOKEN_KEEP_MS, 2 * lease))
end
