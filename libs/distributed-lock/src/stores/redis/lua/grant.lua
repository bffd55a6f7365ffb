-- grant.lua: shared by acquire, end and force; not a script of its own.
-- Expects KEYS 1 lock 2 line 3 info 4 token 5 channel, time.lua, tokens.lua, and the locals cluster, publish.
-- The line is a sorted set owner -> place; info holds per owner "until hears tokens short", and three marks:
-- granted (owner of a grant that was pushed and not yet confirmed), since (a stranger listens since), open (until).

local STRANGER_WAIT_MS = 1000  -- a stranger that listens gets its chance at least this often
local OPEN_MS = 20             -- how long only strangers may take the lock then

local function client_of(owner)
  return string.match(owner, '^(.*):%d+$') or owner
end

-- Our client ids are UUIDs of version 8; Redisson's are of version 4.
local function is_ours(owner)
  return string.sub(owner, 15, 15) == '8'
end

local function push(owner, message)
  return redis.call('PUBLISH', 'nest_lock_push:' .. client_of(owner), message)
end

local function keep()
  redis.call('PEXPIRE', KEYS[2], KEEP_MS)
  redis.call('PEXPIRE', KEYS[3], KEEP_MS)
end

local function leave_line(owner)
  redis.call('ZREM', KEYS[2], owner)
  redis.call('HDEL', KEYS[3], owner)
end

-- Whoever got the last grant and never confirmed it is dead or out of reach, with all its places.
local function drop_unconfirmed(asker)
  local granted = redis.call('HGET', KEYS[3], 'granted')
  if not granted then return end
  redis.call('HDEL', KEYS[3], 'granted')
  local client = client_of(granted)
  for _, owner in ipairs(redis.call('ZRANGE', KEYS[2], 0, -1)) do
    if owner ~= asker and client_of(owner) == client then leave_line(owner) end
  end
end

-- Grants the free lock to the first live entry. Returns its owner and tokens; nothing when there is none.
-- The asker gets its full lease, as it learns of the grant by the reply.
local function grant(asker, lease)
  drop_unconfirmed(asker)
  local index = 0
  while true do
    local owner = redis.call('ZRANGE', KEYS[2], index, index)[1]
    if not owner then return nil end
    local entry = redis.call('HGET', KEYS[3], owner) or ''
    local live_until, hears, tokens, short = string.match(entry, '^(%d+) (%d) (%d+) (%d+)$')
    if not live_until or tonumber(live_until) < now then
      leave_line(owner)
    else
      local first, last = next_tokens(tonumber(tokens))
      local reached = owner == asker
      if not reached then
        local waiting = redis.call('ZCARD', KEYS[2]) - 1
        local message = { 'granted', owner, text(first), text(last), text(now), short, text(waiting) }
        -- Nobody hears a live process whose subscriber reconnects: skip it, it keeps its place.
        reached = push(owner, table.concat(message, ' ')) > 0 or hears == '0' or cluster
      end
      if reached then
        leave_line(owner)
        redis.call('HSET', KEYS[1], owner, 1)
        redis.call('PEXPIRE', KEYS[1], owner == asker and lease or short)
        if owner ~= asker then
          redis.call('HSET', KEYS[3], 'granted', owner)
          keep()
        end
        write_tokens(first, last, lease)
        return owner, first, last
      end
      index = index + 1
    end
  end
end

local function listeners()
  local count = publish == 'SPUBLISH' and 'SHARDNUMSUB' or 'NUMSUB'
  return redis.call('PUBSUB', count, KEYS[5])[2]
end

-- A Java waiter is in no line of ours: once it has listened long enough, the lock is freed for strangers only.
local function open_for_strangers()
  local since = redis.call('HGET', KEYS[3], 'since')
  if listeners() == 0 then
    if since then redis.call('HDEL', KEYS[3], 'since') end
    return false
  end
  if not since then
    redis.call('HSET', KEYS[3], 'since', text(now))
    redis.call('PEXPIRE', KEYS[3], KEEP_MS)
    return false
  end
  if now - tonumber(since) < STRANGER_WAIT_MS then return false end
  redis.call('HDEL', KEYS[3], 'since')
  redis.call('HSET', KEYS[3], 'open', text(now + OPEN_MS))
  keep()
  redis.call(publish, KEYS[5], '0')
  local first = redis.call('ZRANGE', KEYS[2], 0, 0)[1]
  if first then push(first, 'look ' .. first .. ' ' .. OPEN_MS) end
  return true
end

-- The lock is free: the next in line gets it, or whoever comes.
local function pass_on()
  if open_for_strangers() then return end
  if not grant('', 0) then redis.call(publish, KEYS[5], '0') end
end
