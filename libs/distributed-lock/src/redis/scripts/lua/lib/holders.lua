-- holders.lua: who holds the lock, for each kind of claim; not a script of its own. Expects common.lua.
--
-- lock       the hash of key 1 is {owner -> 1}                              Redisson's RLock
-- exclusive  {mode -> write, owner:write -> 1}                              its RReadWriteLock
-- shared     {mode -> read, owner -> 1, ...}, and a key per reader that lives as long as its lease
-- permits    key 1 counts what is left; a sorted set has owner, owner#2, ... -> end of lease
--                                                                           its RPermitExpirableSemaphore
--
-- Readers hold together, and so do holders of permits, so key 4 cannot have the tokens of each of them. A hash of ours has them:
-- owner -> "first last".
--
-- Key 1 may hold data of the application instead. A hash with a field that no lock has, and a string that is no number, are data:
-- no script takes them for a lock, changes them or tells what is in them. MAX_FIELDS bounds every loop, whatever numbers a hash
-- contains.

local braced = string.find(KEYS[1], '{', 1, true) and KEYS[1] or '{' .. KEYS[1] .. '}'
local permits_key = braced .. ':timeout'
local holders_key = 'nest_lock_holders' .. string.sub(KEYS[3], #'nest_lock_meta' + 1)
-- Redisson keeps the permits of x and the permits of {x} in one sorted set. For each of the two names `other_name` is the other one.
local other_name = string.match(KEYS[1], '^{([^{]+)}$') or braced ~= KEYS[1] and braced

local MAX_FIELDS = 10000 -- of a hash that is read as a whole, and leases of readers that one script looks at
local MANY_FIELDS = 30 -- of a hash whose fields are counted instead, if that will do
local OWNER = '^%x%x%x%x%x%x%x%x%-%x%x%x%x%-%x%x%x%x%-%x%x%x%x%-%x%x%x%x%x%x%x%x%x%x%x%x:%-?%d+$'
local FOREIGN_PERMIT = 'Redisson permit '
local NUMBER = '^%-?%d+$'
local MAX_NUMBER = 20 -- characters; a longer string is data, which may be too long to be read
local MODES = { read = 'shared', write = 'exclusive' }
local NO_LOCK = 'WRONGTYPE this key holds data of the application'
local SHARED_PERMITS = 'WRONGTYPE permits of two names in one sorted set'

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

-- Redisson names a permit by bytes. Snapshots and requests write them as hexadecimal digits, as Redisson does towards its users.
local function named_permit(entry)
  return FOREIGN_PERMIT .. string.gsub(entry, '.', function(byte) return string.format('%02x', string.byte(byte)) end)
end

-- The entry of the sorted set for the first permit of an owner, given the name under which holders() lists the owner.
local function permit_of(owner)
  local digits = string.match(owner, '^' .. FOREIGN_PERMIT .. '(%x+)$')
  if not digits then return string.find(owner, OWNER) and owner end
  return (string.gsub(digits, '%x%x', function(byte) return string.char(tonumber(byte, 16)) end))
end

local function permit(owner, i)
  return i == 1 and owner or owner .. '#' .. i
end

local function type_of_lock()
  return redis.call('TYPE', KEYS[1]).ok
end

local function has_fields_of_a_lock()
  if redis.call('HLEN', KEYS[1]) > MAX_FIELDS then return false end
  -- Check the names before the values, because the values may be long if the hash is data of the application.
  for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
    if field ~= 'mode' and not string.find(string.gsub(field, ':write$', ''), OWNER) then return false end
  end
  local fields, mode, owners, writers = redis.call('HGETALL', KEYS[1]), nil, 0, 0
  for i = 1, #fields, 2 do
    local field, value = fields[i], fields[i + 1]
    if field == 'mode' then mode = value
    elseif not string.find(value, '^[1-9]%d*$') then return false
    elseif string.find(field, ':write', 1, true) then writers = writers + 1
    else owners = owners + 1 end
  end
  if mode == 'write' then return owners + writers > 0 end
  return writers == 0 and (mode == 'read' and owners > 0 or not mode and owners == 1)
end

local verdict

-- Whether the hash at key 1 is a lock. A script checks once, because its own writes do not change the answer.
local function is_lock()
  if verdict == nil then verdict = has_fields_of_a_lock() end
  return verdict
end

-- True if one more reader may enter. With many readers the script does not read all fields to see whether the hash is a lock: it is one
-- if each field but the mode belongs to a reader of ours, because each of these has one entry in the hash of tokens.
local function may_read_along()
  local fields = redis.call('HLEN', KEYS[1])
  if fields >= MAX_FIELDS then return false end
  return fields > MANY_FIELDS and redis.call('HLEN', holders_key) == fields - 1 or is_lock()
end

-- True for a short string of digits, such as the counter of a semaphore.
local function is_number(key)
  -- By pcall, because a call may fail: the user may lack the right to the key, or it lies in another slot of a cluster.
  if redis.pcall('TYPE', key).ok ~= 'string' then return false end
  if redis.call('STRLEN', key) > MAX_NUMBER then return false end
  return string.find(redis.call('GET', key), NUMBER) ~= nil
end

local function other_name_has_permits()
  return other_name and is_number(other_name)
end

local function type_of_permits()
  return redis.call('TYPE', permits_key).ok
end

-- Returns the error to reply if key 1, or the sorted set of its permits, holds data that are no lock; nil for a lock, for permits and for
-- a free key.
local function refusal(kind)
  local found = type_of_lock()
  local is_free_or_lock = found == 'none' or found == 'hash' and is_lock() or found == 'string' and is_number(KEYS[1])
  if not is_free_or_lock then return NO_LOCK end
  if kind ~= 'permits' then return nil end
  local permits = type_of_permits()
  if permits == 'none' then return nil end
  if permits ~= 'zset' then return NO_LOCK end
  return other_name_has_permits() and SHARED_PERMITS or nil
end

local function holds(owner, kind)
  -- If the hash has a mode, the owner holds no plain lock any more: it has downgraded to a reader, and this is an old copy of its
  -- acquire.
  if kind == 'lock' then
    local fields = redis.call('HMGET', KEYS[1], owner, 'mode')
    return fields[1] and not fields[2]
  end
  if kind == 'exclusive' then return redis.call('HEXISTS', KEYS[1], owner .. ':write') == 1 end
  if kind == 'permits' then
    -- STRLEN raises an error if the key is no string.
    local length = redis.call('STRLEN', KEYS[1])
    return redis.call('ZSCORE', permits_key, owner) ~= false and (length == 0 or is_number(KEYS[1]))
  end
  return redis.call('HGET', KEYS[1], 'mode') == 'read' and redis.call('HEXISTS', KEYS[1], owner) == 1
end

-- The remaining time of the longest reader's lease. Calls `on_dead` with each reader whose lease has expired. Returns nil if that
-- would take too long, as for Java threads with thousands of holds. The callers then leave the expiry of the lock as it is.
local function longest_reader(on_dead)
  if not is_lock() then return nil end
  local fields = redis.call('HGETALL', KEYS[1])
  local longest, looks = 0, 0
  for i = 1, #fields, 2 do
    local owner, holds_of_it, left = fields[i], tonumber(fields[i + 1]), 0
    if holds_of_it then
      looks = looks + holds_of_it
      if looks > MAX_FIELDS then return nil end
      for hold = 1, holds_of_it do
        left = math.max(left, redis.call('PTTL', reader_key(owner, hold)))
      end
      if left == 0 then on_dead(owner) end
      longest = math.max(longest, left)
    end
  end
  return longest
end

-- Removes readers whose lease has expired. From then on the lock lasts as long as the longest lease that is left.
local function sweep_readers()
  local longest = longest_reader(function(owner)
    redis.call('HDEL', KEYS[1], owner)
    redis.call('HDEL', holders_key, owner)
  end)
  if not longest then return end
  if longest > 0 then redis.call('PEXPIRE', KEYS[1], longest) else redis.call('DEL', KEYS[1]) end
end

local function sweep_permits()
  -- For MAX_FIELDS owners at most. The tokens of further owners expire by themselves.
  local gone = redis.call('ZRANGEBYSCORE', permits_key, '-inf', now, 'LIMIT', 0, MAX_FIELDS)
  for _, owner in ipairs(gone) do redis.call('HDEL', holders_key, owner) end
  if #gone == 0 then return end
  local freed = redis.call('ZREMRANGEBYSCORE', permits_key, '-inf', now)
  if redis.call('EXISTS', KEYS[1]) == 1 then redis.call('INCRBY', KEYS[1], freed) end
end

local function may_enter(kind, weight, permits)
  local found = type_of_lock()
  if kind == 'permits' then
    if found == 'hash' or refusal(kind) then return false end
    sweep_permits()
    return redis.call('ZCARD', permits_key) + weight <= permits
  end
  if found ~= 'hash' then return found == 'none' end
  if redis.call('HGET', KEYS[1], 'mode') ~= 'read' then return false end
  if kind == 'shared' then return may_read_along() end
  if not is_lock() then return false end
  sweep_readers()
  return redis.call('EXISTS', KEYS[1]) == 0
end

local function at_least(key, ms)
  redis.call('PEXPIRE', key, text(math.max(redis.call('PTTL', key), ms)))
end

-- Writes to key 1 how many permits are left, because foreign clients read it there. If the counter never expires, a foreign client made
-- it: it stays so, and while no owner of ours holds permits, its limit counts. A counter of ours expires with the longest lease of a
-- permit.
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

-- Writes the owner as a holder. For an owner that holds already this restarts its lease.
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
    -- Write the reader's own key first, and with GET, which raises an error if that key has another type. So the script stops before it
    -- has changed anything.
    redis.call('SET', reader_key(owner, 1), 1, 'PX', lease, 'GET')
    redis.call('HSET', KEYS[1], 'mode', 'read', owner, 1)
    -- The lock lasts as long as the longest reader's lease. If it has more left than this lease, look at all readers: until now the
    -- longest lease may have been that of this owner.
    local longest = lease
    if redis.call('PTTL', KEYS[1]) > tonumber(lease) then longest = longest_reader(function() end) end
    if longest then redis.call('PEXPIRE', KEYS[1], longest) end
  else
    for i = 1, weight do redis.call('ZADD', permits_key, text(now + lease), permit(owner, i)) end
    count_permits(permits - redis.call('ZCARD', permits_key))
  end
  redis.call('HSET', holders_key, owner, text(first) .. ' ' .. text(last))
  at_least(holders_key, tonumber(lease))
end

-- Removes the owner from the holders. Returns 1 if it held. A reader whose downgrade never reached the server still holds as a
-- writer, so that field is removed, too.
local function leave(owner, kind, weight)
  if kind == 'lock' then return redis.call('HDEL', KEYS[1], owner) end
  if kind == 'permits' then
    local given_back = 0
    if type_of_permits() ~= 'zset' then return 0 end
    for i = 1, weight do given_back = given_back + redis.call('ZREM', permits_key, permit(owner, i)) end
    redis.call('HDEL', holders_key, owner)
    if given_back == 0 then return 0 end
    if not is_number(KEYS[1]) then return 1 end
    local ttl = redis.call('PTTL', KEYS[1])
    redis.call('INCRBY', KEYS[1], given_back)
    if ttl >= 0 and redis.call('EXISTS', permits_key) == 0 then redis.call('DEL', KEYS[1]) end
    return 1
  end
  local found = type_of_lock()
  if found ~= 'hash' and found ~= 'none' then return 0 end
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

-- Returns the owners that hold, and a remaining time: of the permit that expires first, otherwise of the key, which for readers
-- lasts as long as the longest lease.
local function holders()
  local found = {}
  if type_of_lock() == 'string' then
    if type_of_permits() ~= 'zset' then return found, 0 end
    -- Permits whose lease has expired stay until another owner needs them.
    local entries =
      redis.call('ZRANGEBYSCORE', permits_key, '(' .. text(now), '+inf', 'WITHSCORES', 'LIMIT', 0, MAX_FIELDS)
    for i = 1, #entries, 2 do
      local owner = is_ours(entries[i]) and entries[i] or named_permit(entries[i])
      if not string.find(owner, '#', 1, true) then found[#found + 1] = owner end
    end
    return found, entries[2] and tonumber(entries[2]) - now or 0
  end
  for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
    if field ~= 'mode' then found[#found + 1] = string.gsub(field, ':write$', '') end
  end
  return found, redis.call('PTTL', KEYS[1])
end
