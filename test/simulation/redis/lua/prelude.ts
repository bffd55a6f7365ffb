/** What the scripts of Redis have and Lua 5.3 has not, and the guard of globals. Run once, with `redis` and `cjson` set. */
export const PRELUDE = `
unpack = table.unpack
local tonumber, select, error, type, tostring, getinfo = tonumber, select, error, type, tostring, debug.getinfo

local function extreme(better)
  return function(first, ...)
    local best = tonumber(first)
    for i = 1, select('#', ...) do
      local it = tonumber((select(i, ...)))
      if better(it, best) then best = it end
    end
    return best
  end
end
math.max = extreme(function(a, b) return a > b end)
math.min = extreme(function(a, b) return a < b end)

function redis.error_reply(text)
  text = string.gsub(text, '^-', '')
  return { err = string.find(text, ' ', 1, true) and text or 'ERR ' .. text }
end
function redis.status_reply(text) return { ok = text } end

-- The error of a script is a table, with the line where it happened.
local function on_error(it)
  local level = 2
  local at = getinfo(level, 'nSl')
  while at and at.source ~= '@user_script' do
    level = level + 1
    at = getinfo(level, 'nSl')
  end
  if type(it) ~= 'table' then it = { err = 'ERR ' .. tostring(it) } end
  if at then it.source, it.line = at.source, tostring(at.currentline) end
  return it
end

debug, io, os, require, package, dofile, loadfile, utf8, coroutine.isyieldable = nil
setmetatable(_G, {
  __index = function(_, name) error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2) end,
  __newindex = function(_, name) error("Attempt to modify a readonly table", 2) end,
})
return on_error
`;
