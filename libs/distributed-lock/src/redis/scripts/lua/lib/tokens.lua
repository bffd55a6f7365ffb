-- tokens.lua: shared by all that grant; not a script of its own. Fencing tokens: key 4 holds "first last" of the last grant, or one
-- number where both are the same. Expects common.lua and the local min_token. The short form is in
-- tokens-plain.lua.

-- With `sharedTokens` tokens are counted together with those of Redisson's fenced lock: the name of key 4 says so.
local are_shared = string.find(KEYS[4], 'nest_lock_shared_token', 1, true) == 1

-- The key of Redisson's token counter. Redisson has one counter for x and {x}.
local function foreign_counter(lock)
  return 'redisson_lock_token:' .. (string.find(lock, '{', 1, true) and lock or '{' .. lock .. '}')
end

local function foreign_count(lock)
  return are_shared and tonumber(redis.call('GET', foreign_counter(lock)) or 0) or 0
end

local own_count -- to which this script has set Redisson's counter

-- Sets Redisson's counter to the last token of a grant. Only two scripts may lower it, because nobody can have taken tokens since: one
-- that has just set it (`own_count`), and a release while the counter is still the last token of that owner's own block.
local function set_foreign_count(lock, last)
  if not are_shared then return end
  local counted = foreign_count(lock)
  if counted >= last and counted ~= own_count then return end
  redis.call('SET', foreign_counter(lock), text(last))
  own_count = last
end

-- Returns a token that is larger than every token before it. If the server has lost the counter, the clock or the largest token that
-- clients have seen ensures that.
local function next_after(last)
  local seen = min_token > micros + FARTHEST_AHEAD and 0 or min_token
  return math.max(last, seen, micros - 1) + 1
end

local function first_and_last(tokens)
  return tonumber(string.match(tokens, '^%d+')), tonumber(string.match(tokens, '%d+$'))
end

-- Writes the tokens of a grant to key 4. Returns the last token of the grant before, or 0.
local function count_up(first, last, lease)
  set_foreign_count(KEYS[1], last)
  local tokens = first == last and text(last) or text(first) .. ' ' .. text(last)
  local _, counted = first_and_last(redis.call('SET', KEYS[4], tokens, 'PX', token_keep(lease), 'GET') or '')
  return counted or 0
end

local function take_tokens(number, lease)
  local first = next_after(foreign_count(KEYS[1]))
  local known = count_up(first, first + number - 1, lease)
  if known >= first then
    first = next_after(known)
    count_up(first, first + number - 1, lease)
  end
  return first, first + number - 1
end
