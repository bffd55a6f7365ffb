-- tokens.lua: shared by all that grant; not a script of its own. Fencing tokens: key 4, or the one given, holds
-- "first last" of who was granted last, or one number where both are the same. Where they are counted together with those
-- of Java's fenced lock, that key says so by its name, and Redisson's counter of the same lock is kept as far.
-- Expects time.lua, numbers.lua and the local min_token.

local SHARED = 'nest_lock_shared_token'
local are_shared = string.find(KEYS[4], SHARED, 1, true) == 1

-- Redisson's name, which x and {x} have in common.
local function java_counter(lock)
  return 'redisson_lock_token:' .. (string.find(lock, '{', 1, true) and lock or '{' .. lock .. '}')
end

-- Larger than every token before, also when the counter was lost: then the clock, or what clients have seen, decides.
local function next_after(last)
  local seen = min_token > micros + FARTHEST_AHEAD and 0 or min_token
  return math.max(last, seen, micros - 1) + 1
end

local function first_and_last(tokens)
  return tonumber(string.match(tokens, '^%d+')), tonumber(string.match(tokens, '%d+$'))
end

local raised_to

-- Never lowers what another lock with the same counter there may have counted.
local function count_in_java(lock, last)
  local counted = tonumber(redis.call('GET', java_counter(lock)) or 0)
  if counted >= last and counted ~= raised_to then return end
  redis.call('SET', java_counter(lock), text(last))
  raised_to = last
end

-- Returns the last token that was counted before. `at` is where the keys of the lock begin.
local function count_up(first, last, lease, at)
  local to, key = text(last), KEYS[at + 3]
  if are_shared then count_in_java(KEYS[at], last) end
  local tokens = first == last and to or text(first) .. ' ' .. to
  local _, counted = first_and_last(redis.call('SET', key, tokens, 'PX', token_keep(lease), 'GET') or '')
  return counted or 0
end

local function take_tokens(number, lease, at)
  at = at or 1
  local first = next_after(are_shared and tonumber(redis.call('GET', java_counter(KEYS[at])) or 0) or 0)
  local known = count_up(first, first + number - 1, lease, at)
  if known >= first then
    first = next_after(known)
    count_up(first, first + number - 1, lease, at)
  end
  return first, first + number - 1
end
