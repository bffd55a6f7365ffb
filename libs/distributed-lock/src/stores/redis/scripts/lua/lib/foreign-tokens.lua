-- foreign-tokens.lua: shared by all that count tokens; not a script of its own. With `sharedTokens` tokens are counted
-- together with those of Redisson's fenced lock: the name of key 4 says so. Expects numbers.lua.

local are_shared = string.find(KEYS[4], 'nest_lock_shared_token', 1, true) == 1

-- Redisson's name, which x and {x} have in common.
local function foreign_counter(lock)
  return 'redisson_lock_token:' .. (string.find(lock, '{', 1, true) and lock or '{' .. lock .. '}')
end

local function foreign_count(lock)
  return are_shared and tonumber(redis.call('GET', foreign_counter(lock)) or 0) or 0
end

local raised_to

-- Never lowers what another lock with the same counter may have counted.
local function raise_foreign_count(lock, last)
  if not are_shared then return end
  local counted = foreign_count(lock)
  if counted >= last and counted ~= raised_to then return end
  redis.call('SET', foreign_counter(lock), text(last))
  raised_to = last
end
