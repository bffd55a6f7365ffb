-- holders.lua: who holds the lock, in each of the ways to hold one; not a script of its own. Expects time.lua and
-- numbers.lua.
--
-- lock       the hash of key 1 is {owner -> 1}                              Redisson's RLock
-- exclusive  {mode -> write, owner:write -> 1}                              its RReadWriteLock
-- shared     {mode -> read, owner -> 1, ...}, and a key per reader that lives as long as its lease
-- permits    key 1 counts what is left; a sorted set has owner, owner#2, ... -> end of lease
--                                                                           its RPermitExpirableSemaphore
--
-- Those who hold together have their tokens "first last" in a hash of ours, by owner.

local braced = string.find(KEYS[1], '{', 1, true) and KEYS[1] or '{' .. KEYS[1] .. '}'
local permits_key = braced .. ':timeout'
local holders_key = 'nest_lock_holders' .. string.sub(KEYS[3], #'nest_lock_info' + 1)

-- Our client ids are UUIDs of version 8; Redisson's are of version 4.
local function is_ours(owner)
  return #owner > 36 and string.sub(owner, 15, 15) == '8'
end

local function is_alone(kind)
  return kind == 'lock' or kind == 'exclusive'
end

local function reader_key(owner, hold)
  return braced .. ':' .. owner .. ':rwlock_timeout:' .. hold
end

local function permit(owner, i)
  return i == 1 and owner or owner .. '#' .. i
end

local function type_of_lock()
  return redis.call('TYPE', KEYS[1]).ok
end

local function holds(owner, kind)
  -- With a mode it is the field of a reader: of one that has stepped down, and this is an old copy of what it asked.
  if kind == 'lock' then
    local fields = redis.call('HMGET', KEYS[1], owner, 'mode')
    return fields[1] and not fields[2]
  end
  if kind == 'exclusive' then return redis.call('HEXISTS', KEYS[1], owner .. ':write') == 1 end
  if kind == 'permits' then
    -- Raises an error if the key is something else.
    redis.call('GET', KEYS[1])
    return redis.call('ZSCORE', permits_key, owner) ~= false
  end
  return redis.call('HGET', KEYS[1], 'mode') == 'read' and redis.call('HEXISTS', KEYS[1], owner) == 1
end

-- What is left of the longest reader's lease; `on_dead` is called with each whose lease is over.
local function longest_reader(on_dead)
  local fields = redis.call('HGETALL', KEYS[1])
  local longest = 0
  for i = 1, #fields, 2 do
    local owner, holds_of_it, left = fields[i], tonumber(fields[i + 1]), 0
    if holds_of_it then
      for hold = 1, holds_of_it do
        left = math.max(left, redis.call('PTTL', reader_key(owner, hold)))
      end
      if left == 0 then on_dead(owner) end
      longest = math.max(longest, left)
    end
  end
  return longest
end

-- Readers whose lease is over are out; the lock lasts as long as the one that has most left.
local function sweep_readers()
  local longest = longest_reader(function(owner)
    redis.call('HDEL', KEYS[1], owner)
    redis.call('HDEL', holders_key, owner)
  end)
  if longest > 0 then redis.call('PEXPIRE', KEYS[1], longest) else redis.call('DEL', KEYS[1]) end
end

local function sweep_permits()
  local gone = redis.call('ZRANGEBYSCORE', permits_key, '-inf', now)
  for _, owner in ipairs(gone) do redis.call('HDEL', holders_key, owner) end
  if #gone == 0 then return end
  redis.call('ZREMRANGEBYSCORE', permits_key, '-inf', now)
  if redis.call('EXISTS', KEYS[1]) == 1 then redis.call('INCRBY', KEYS[1], #gone) end
end

local function may_enter(kind, weight, permits)
  local found = type_of_lock()
  if kind == 'permits' then
    if found == 'hash' then return false end
    sweep_permits()
    return redis.call('ZCARD', permits_key) + weight <= permits
  end
  if found ~= 'hash' then return found == 'none' end
  if redis.call('HGET', KEYS[1], 'mode') ~= 'read' then return false end
  if kind == 'shared' then return true end
  sweep_readers()
  return redis.call('EXISTS', KEYS[1]) == 0
end

local function at_least(key, ms)
  redis.call('PEXPIRE', key, text(math.max(redis.call('PTTL', key), ms)))
end

-- For Redisson's clients. A counter that lives for ever is theirs, and so is its limit while nothing of ours is held.
local function count_permits(left)
  if redis.call('PTTL', KEYS[1]) == -1 then
    redis.call('SET', KEYS[1], text(left))
    return
  end
  local longest = redis.call('ZRANGE', permits_key, -1, -1, 'WITHSCORES')[2]
  local keep = text(math.max(1, tonumber(longest) - now))
  redis.call('SET', KEYS[1], text(left), 'PX', keep)
  redis.call('PEXPIRE', permits_key, keep)
end

-- Also when it is in already: then its lease starts anew.
local function enter(owner, kind, weight, permits, lease, first, last)
  if kind == 'lock' then
    redis.call('HSET', KEYS[1], owner, 1)
    redis.call('PEXPIRE', KEYS[1], lease)
    return
  end
  if kind == 'exclusive' then
    redis.call('HSET', KEYS[1], 'mode', 'write', owner .. ':write', 1)
    redis.call('PEXPIRE', KEYS[1], lease)
    return
  end
  if kind == 'shared' then
    redis.call('HSET', KEYS[1], 'mode', 'read', owner, 1)
    redis.call('SET', reader_key(owner, 1), 1, 'PX', lease)
    -- As long as the longest reader's, also if this lease was longer until now.
    if redis.call('PTTL', KEYS[1]) <= tonumber(lease) then redis.call('PEXPIRE', KEYS[1], lease)
    else redis.call('PEXPIRE', KEYS[1], longest_reader(function() end)) end
  else
    for i = 1, weight do redis.call('ZADD', permits_key, text(now + lease), permit(owner, i)) end
    count_permits(permits - redis.call('ZCARD', permits_key))
  end
  redis.call('HSET', holders_key, owner, text(first) .. ' ' .. text(last))
  at_least(holders_key, tonumber(lease))
end

-- Returns 1 if it was in. A reader may be one that is about to step down: then it still holds alone.
local function leave(owner, kind, weight)
  if kind == 'lock' then return redis.call('HDEL', KEYS[1], owner) end
  if kind == 'permits' then
    local given_back = 0
    for i = 1, weight do given_back = given_back + redis.call('ZREM', permits_key, permit(owner, i)) end
    redis.call('HDEL', holders_key, owner)
    if given_back == 0 then return 0 end
    local ttl = redis.call('PTTL', KEYS[1])
    if ttl ~= -2 then redis.call('INCRBY', KEYS[1], given_back) end
    if ttl >= 0 and redis.call('EXISTS', permits_key) == 0 then redis.call('DEL', KEYS[1]) end
    return 1
  end
  local was_holder = redis.call('HDEL', KEYS[1], owner .. ':write')
  if kind == 'shared' then
    was_holder = math.max(was_holder, redis.call('HDEL', KEYS[1], owner))
    redis.call('DEL', reader_key(owner, 1))
    redis.call('HDEL', holders_key, owner)
  end
  local mode = was_holder == 1 and redis.call('HGET', KEYS[1], 'mode')
  if mode and redis.call('HLEN', KEYS[1]) == 1 then redis.call('DEL', KEYS[1])
  elseif mode == 'read' then sweep_readers() end
  return was_holder
end

-- The owners inside, and what is left of the lease that ends first, or of the longest reader's.
local function holders()
  local found = {}
  if type_of_lock() == 'string' then
    -- Permits whose lease is over stay until somebody needs them.
    local entries = redis.call('ZRANGEBYSCORE', permits_key, '(' .. text(now), '+inf', 'WITHSCORES')
    for i = 1, #entries, 2 do
      local owner = is_ours(entries[i]) and entries[i] or 'stranger'
      if not string.find(owner, '#', 1, true) then found[#found + 1] = owner end
    end
    return found, entries[2] and tonumber(entries[2]) - now or 0
  end
  for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
    if field ~= 'mode' then found[#found + 1] = string.gsub(field, ':write$', '') end
  end
  return found, redis.call('PTTL', KEYS[1])
end
