-- tokens.lua: shared by all that grant; not a script of its own. Fencing tokens: key 4, or that of another lock, holds
-- "first last" of the last grant, or one number where both are the same.
-- Expects time.lua, numbers.lua, foreign-tokens.lua and the local min_token.

-- Larger than every token before, also when the counter was lost: then the clock, or what clients have seen, decides.
local function next_after(last)
  local seen = min_token > micros + FARTHEST_AHEAD and 0 or min_token
  return math.max(last, seen, micros - 1) + 1
end

local function first_and_last(tokens)
  return tonumber(string.match(tokens, '^%d+')), tonumber(string.match(tokens, '%d+$'))
end

-- Returns the last token that was counted before. `at` is where the keys of the lock begin.
local function count_up(first, last, lease, at)
  raise_foreign_count(KEYS[at], last)
  local tokens = first == last and text(last) or text(first) .. ' ' .. text(last)
  local _, counted = first_and_last(redis.call('SET', KEYS[at + 3], tokens, 'PX', token_keep(lease), 'GET') or '')
  return counted or 0
end

local function take_tokens(number, lease, at)
  at = at or 1
  local first = next_after(foreign_count(KEYS[at]))
  local known = count_up(first, first + number - 1, lease, at)
  if known >= first then
    first = next_after(known)
    count_up(first, first + number - 1, lease, at)
  end
  return first, first + number - 1
end
