-- tokens.lua: shared by all that grant; not a script of its own. Fencing tokens: key 4, or the one given, holds
-- "first last". Where they are counted together with those of Java's fenced lock, that key says so by its name, and
-- Redisson's counter of the same lock is kept as far.
-- Expects time.lua and the local floor.

local TOKEN_KEEP_MS = 86400000 -- tokens fall back on the clock after this; longer leases keep them longer

-- Larger than every token before, also when the counter was lost: then the clock, or what clients have seen, decides.
local function tokens_after(known, count)
  local last = known and tonumber(string.match(known, ' (%d+)$')) or 0
  local seen = floor > micros + 86400000000 and 0 or floor
  local first = math.max(last, seen, micros - 1) + 1
  return first, first + count - 1
end

local function java_counter(key)
  local lock = string.match(key, '^nest_lock_shared_token(.*)$')
  return lock and 'redisson_lock_token' .. lock
end

local function next_tokens(count, key)
  local first, last = tokens_after(redis.call('GET', key or KEYS[4]), count)
  local java = java_counter(key or KEYS[4])
  local ahead = java and tonumber(redis.call('GET', java) or 0) + 1 - first or 0
  if ahead <= 0 then return first, last end
  return first + ahead, last + ahead
end

local function write_tokens(first, last, lease, key)
  local java = java_counter(key or KEYS[4])
  if java then redis.call('SET', java, text(last)) end
  local keep = 2 * lease > TOKEN_KEEP_MS and text(2 * lease) or '86400000'
  return redis.call('SET', key or KEYS[4], text(first) .. ' ' .. text(last), 'PX', keep, 'GET')
end

-- The same in one step, as the clock is nearly always ahead of the tokens before.
local function take_tokens(count, lease, key)
  if java_counter(key or KEYS[4]) then
    local first, last = next_tokens(count, key)
    write_tokens(first, last, lease, key)
    return first, last
  end
  local first, last = tokens_after(nil, count)
  local known = write_tokens(first, last, lease, key)
  local sure_first, sure_last = tokens_after(known, count)
  if sure_first > first then write_tokens(sure_first, sure_last, lease, key) end
  return sure_first, sure_last
end
