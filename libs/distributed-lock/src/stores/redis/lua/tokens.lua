-- tokens.lua: shared by all that grant; not a script of its own. Fencing tokens: key 4, or the one given, holds
-- "first last" of who was granted last, or one number where both are the same. Where they are counted together with those
-- of Java's fenced lock, that key says so by its name, and Redisson's counter of the same lock is kept as far.
-- Expects time.lua, numbers.lua and the local floor.

local SHARED = 'nest_lock_shared_token'
local are_shared = string.find(KEYS[4], SHARED, 1, true) == 1

local function java_counter(key)
  return 'redisson_lock_token' .. string.sub(key, #SHARED + 1)
end

-- Larger than every token before, also when the counter was lost: then the clock, or what clients have seen, decides.
local function next_after(last)
  local seen = floor > micros + FARTHEST_AHEAD and 0 or floor
  return math.max(last, seen, micros - 1) + 1
end

local function first_and_last(tokens)
  return tonumber(string.match(tokens, '^%d+')), tonumber(string.match(tokens, '%d+$'))
end

-- Returns the last token that was counted before.
local function count_up(first, last, lease, key)
  local to = text(last)
  if are_shared then redis.call('SET', java_counter(key), to) end
  local tokens = first == last and to or text(first) .. ' ' .. to
  local _, counted = first_and_last(redis.call('SET', key, tokens, 'PX', token_keep(lease), 'GET') or '')
  return counted or 0
end

local function take_tokens(number, lease, key)
  key = key or KEYS[4]
  local first = next_after(are_shared and tonumber(redis.call('GET', java_counter(key)) or 0) or 0)
  local known = count_up(first, first + number - 1, lease, key)
  if known >= first then
    first = next_after(known)
    count_up(first, first + number - 1, lease, key)
  end
  return first, first + number - 1
end
