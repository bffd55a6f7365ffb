-- tokens.lua: shared by all that grant; not a script of its own. Fencing tokens: key 4, or the one given, holds
-- "first last".
-- Expects time.lua and the local floor.

local TOKEN_KEEP_MS = 86400000 -- tokens fall back on the clock after this; longer leases keep them longer

-- Larger than every token before, also when the counter was lost: then the clock, or what clients have seen, decides.
local function next_tokens(count, key)
  local last = redis.call('GET', key or KEYS[4])
  last = last and tonumber(string.match(last, ' (%d+)$')) or 0
  local seen = floor > micros + 86400000000 and 0 or floor
  local first = math.max(last, seen, micros - 1) + 1
  return first, first + count - 1
end

local function write_tokens(first, last, lease, key)
  redis.call('SET', key or KEYS[4], text(first) .. ' ' .. text(last), 'PX', text(math.max(TOKEN_KEEP_MS, 2 * lease)))
end
