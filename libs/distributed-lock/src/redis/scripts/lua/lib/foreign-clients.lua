-- foreign-clients.lua: shared by all that free, grant or renew; not a script of its own. Lets foreign clients, such as Redisson in
-- Java, share the keys of our locks. Expects common.lua and the local publish.
--
-- A foreign client does not join our queue: it subscribes to the channel of key 5 and tries again when a message says that the lock
-- is free. The fair lock of Redisson has a queue of its own, and its first waiter listens on a channel of its own. So that our
-- queue cannot starve foreign clients, two marks in the hash of notes give them a turn: foreign_waiting_since says when a
-- script first found one subscribed, and foreign_turn_until says until when only foreign clients may take the free lock.

local FOREIGN_WAIT_MS = 200 -- a foreign client that listens gets its chance at least this often
local FOREIGN_TURN_MS = 50 -- for how long only foreign clients may take the lock then

local CHANNELS =
  { lock = 'redisson_lock__channel', exclusive = 'redisson_rwlock', shared = 'redisson_rwlock', permits = 'redisson_sc' }

-- The channel for a kind of claim. Key 5 has the name of the channel for the kind "lock".
local function channel_of(kind)
  return CHANNELS[kind] .. string.sub(KEYS[5], #CHANNELS.lock + 1)
end

-- The channel of the first waiter for Redisson's fair lock; nil for another kind, and where nobody waits. A key of that name
-- that is no list does not belong to Redisson.
local function fair_channel(channel)
  if string.sub(channel, 1, #CHANNELS.lock) ~= CHANNELS.lock then return nil end
  local first = redis.pcall('LINDEX', 'redisson_lock_queue' .. string.sub(channel, #CHANNELS.lock + 1), 0)
  return type(first) == 'string' and channel .. ':' .. first or nil
end

-- How many foreign clients are subscribed. Of those that wait for Redisson's fair lock only the first counts. PUBLISH would also
-- count subscribers to patterns, who do not wait for the lock.
local function listeners(channel)
  local count, fair = publish == 'SPUBLISH' and 'SHARDNUMSUB' or 'NUMSUB', fair_channel(channel)
  local plain = redis.call('PUBSUB', count, channel)[2]
  return fair and plain + redis.call('PUBSUB', count, fair)[2] or plain
end

-- How many ms ago a script first found a foreign client subscribed. If the mark lies in the future, the server's clock was set back
-- since, and the wait starts anew.
local function foreign_clients_waited()
  local waiting_since = tonumber(redis.call('HGET', KEYS[3], 'foreign_waiting_since') or now + 1)
  if waiting_since <= now then return now - waiting_since end
  redis.call('HSET', KEYS[3], 'foreign_waiting_since', text(now))
  redis.call('PEXPIRE', KEYS[3], KEEP_MS)
  return 0
end

-- Whether a foreign client has waited for so long that new readers of ours must wait, too. Otherwise they would starve it.
local function foreign_clients_are_next()
  return listeners(KEYS[5]) > 0 and foreign_clients_waited() >= FOREIGN_WAIT_MS
end

-- For how many more ms only foreign clients may take the lock. If the mark is too far ahead, the server's clock was set back since,
-- and the mark is deleted.
local function foreign_turn_left()
  local turn_until = redis.call('HGET', KEYS[3], 'foreign_turn_until')
  if not turn_until then return 0 end
  local left = tonumber(turn_until) - now
  if left > 0 and left <= FOREIGN_TURN_MS then return left end
  redis.call('HDEL', KEYS[3], 'foreign_turn_until')
  return 0
end

-- For the next FOREIGN_TURN_MS only foreign clients may take the lock. Their wait starts anew after that.
local function give_turn_to_foreign_clients()
  redis.call('HDEL', KEYS[3], 'foreign_waiting_since')
  redis.call('HSET', KEYS[3], 'foreign_turn_until', text(now + FOREIGN_TURN_MS))
  redis.call('PEXPIRE', KEYS[2], KEEP_MS)
  redis.call('PEXPIRE', KEYS[3], KEEP_MS)
end

local FREE = { lock = '0', exclusive = '1', shared = '0' }

-- Publishes a release to foreign clients. For permits the message says how many are left. Expects holders.lua.
local function wake_foreign_clients(kind)
  redis.call(publish, KEYS[5], FREE[kind] or is_number(KEYS[1]) and redis.call('GET', KEYS[1]) or '1')
  local fair = fair_channel(KEYS[5])
  if fair then redis.call(publish, fair, '0') end
end
