-- grant-plain.lua: a part of release; not a script of its own. The short form of grant.lua, for the most frequent release of a key that
-- several processes want: the holder of a plain lock has just left it, one plain waiter of ours is next, and no foreign client waits.
-- Expects KEYS as grant.lua does, common.lua, tokens-plain.lua and waiters.lua.

-- Returns whether the first waiter was granted the lock. If it was not, the data are as before, and grant.lua has to look closer. `used`
-- and `reserved`: as for take_plain_tokens.
local function grant_plain_first(used, reserved)
  -- 1. Take the first waiter.
  local owner = redis.call('ZRANGE', KEYS[2], 0, 0)[1]
  local waiter = owner and plain_waiter(redis.call('HGET', KEYS[3], owner) or '')
  if not waiter or waiter.live_until < now then return false end
  -- 2. A waiter whose client is not subscribed any more would be skipped, and a foreign client that is subscribed may be next.
  local channel = notification_channel(owner)
  local subscribed = redis.call('PUBSUB', 'NUMSUB', KEYS[5], channel)
  if subscribed[2] > 0 or subscribed[4] == 0 then return false end
  -- 3. Reserve the waiter's tokens.
  min_token = math.max(min_token, waiter.min_token)
  local first, last = take_plain_tokens(waiter.tokens, used, reserved)
  if not first then return false end
  redis.call('PUBLISH', channel, granted_message(owner, waiter, first, last))
  -- 4. Make the waiter the holder.
  redis.call('HSET', KEYS[3], UNCONFIRMED, owner)
  redis.call('ZREM', KEYS[2], owner)
  redis.call('HDEL', KEYS[3], owner, 'foreign_waiting_since')
  redis.call('HSET', KEYS[1], owner, '1')
  redis.call('PEXPIRE', KEYS[1], waiter.initial_lease)
  return true
end
