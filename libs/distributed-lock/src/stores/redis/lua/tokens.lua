-- tokens.lua: shared by all that grant; not a script of its own. Fencing tokens: key 4, or the one given, holds
-- "first last". Where they are counted together with those of Java's fenced lock, that key says so by its name, and
-- Redisson's counter of the same lock is kept as far.
-- Expects time.lua and next-token.lua.

local TOKEN_KEEP_MS = 86400000 -- tokens fall back on the clock after this; longer leases keep them longer

local SHARED = 'nest_lock_shared_token'
local are_shared = string.find(KEYS[4], SHARED, 1, true) == 1

local function java_counter(key)
  return 'redisson_lock_token' .. string.sub(key, #SHARED + 1)
end

local function next_tokens(count, key)
  key = key or KEYS[4]
  local known = redis.call('GET', key)
  local last = known and tonumber(string.match(known, ' (%d+)$')) or 0
  if are_shared then last = math.max(last, tonumber(redis.call('GET', java_counter(key)) or 0)) end
  local first = next_after(last)
  return first, first + count - 1
end

local function write_tokens(first, last, lease, key)
  key = key or KEYS[4]
  local from = text(first)
  local to = last == first and from or text(last)
  if are_shared then redis.call('SET', java_counter(key), to) end
  redis.call('SET', key, from .. ' ' .. to, 'PX', 2 * lease > TOKEN_KEEP_MS and text(2 * lease) or '86400000')
end
