-- grant.lua: shared by acquire, release, renew and force; not a script of its own. The queue, and who is next.
-- Expects KEYS 1 lock 2 queue 3 waiter_options 4 token 5 channel, time.lua, tokens.lua, foreign-clients.lua,
-- holders.lua, waiters.lua, and the locals cluster, publish.
--
-- The queue is a sorted set owner -> ticket. The hash of waiter options has for each owner in it the options of its acquire, with
-- live_until and min_token, as JSON; and the mark granted: the owner of a grant that was notified and not yet confirmed.

local function client_of(owner)
  return string.match(owner, '^(.*):%d+$') or owner
end

local function notification_channel(owner)
  return 'nest_lock_notify:' .. client_of(owner)
end

local function notify(owner, message)
  return redis.call('PUBLISH', notification_channel(owner), message)
end

-- PUBLISH also counts pattern subscribers, such as a monitoring tool: only the owner's own client subscribes by name.
local function is_subscribed(owner)
  return redis.call('PUBSUB', 'NUMSUB', notification_channel(owner))[2] > 0
end

local function leave_queue(owner)
  redis.call('ZREM', KEYS[2], owner)
  redis.call('HDEL', KEYS[3], owner)
end

-- The owner of an unconfirmed grant whose lease has expired has crashed or is out of reach, so its client leaves the queue.
local function drop_unconfirmed(asker)
  local granted = redis.call('HGET', KEYS[3], 'granted')
  if not granted or redis.call('EXISTS', KEYS[1]) == 1 then return end
  redis.call('HDEL', KEYS[3], 'granted')
  local client = client_of(granted)
  for _, owner in ipairs(redis.call('ZRANGE', KEYS[2], 0, -1)) do
    if owner ~= asker and client_of(owner) == client then leave_queue(owner) end
  end
end

-- Grants to the live waiters in front that may enter, up to the first that may not. Only a waiter that no message reaches is overtaken.
-- Returns how many were granted, whether the first waiter left may not enter, and the tokens if the asker was granted. The
-- asker gets its full lease, because it learns of the grant by the reply. `held_alone`: the one holder of a plain lock has
-- just left it.
local function grant(asker, lease, held_alone)
  if not held_alone then drop_unconfirmed(asker) end
  local index, count, asker_first, asker_last = 0, 0, nil, nil
  while true do
    local owner = redis.call('ZRANGE', KEYS[2], index, index)[1]
    if not owner then return count, false, asker_first, asker_last end
    local waiter = waiter_of(owner)
    if not waiter then
      leave_queue(owner)
    elseif not (held_alone and is_alone(waiter.kind)) and not may_enter(waiter.kind, waiter.weight, waiter.permits) then
      return count, true, asker_first, asker_last
    else
      -- The waiter may have seen larger tokens than the owner that frees the lock.
      min_token = math.max(min_token, tonumber(waiter.min_token))
      local longest = math.max(lease, waiter.initial_lease)
      local first, last = take_tokens(waiter.tokens, longest)
      local reached = owner == asker
      if not reached then
        local waiting = redis.call('ZCARD', KEYS[2]) - 1
        local message = { 'granted', owner, text(first), text(last), text(now), waiter.initial_lease, waiting, waiter.nonce }
        -- A waiter that has subscribed and has no subscription now reconnects or has crashed. It is skipped and keeps its ticket.
        -- A waiter that has never subscribed is granted without an answer, and finds the grant by its recheck.
        local receivers = notify(owner, table.concat(message, ' '))
        reached = not waiter.subscribed or cluster or receivers > 0 and is_subscribed(owner)
      end
      if reached then
        -- Marked before it leaves the queue. Leaving may delete the last entry of the hash, and with the hash its expiry: a mark
        -- that is written after that would stay for ever.
        if owner ~= asker and is_alone(waiter.kind) then redis.call('HSET', KEYS[3], 'granted', owner) end
        leave_queue(owner)
        local own_lease = owner == asker and lease or waiter.initial_lease
        enter(owner, waiter.kind, waiter.weight, waiter.permits, own_lease, first, last)
        count, held_alone = count + 1, false
        if owner == asker then asker_first, asker_last = first, last end
        if is_alone(waiter.kind) then return count, true, asker_first, asker_last end
      else
        -- The tokens go back, because no client has seen them.
        count_up(first - 1, first - 1, longest, 1)
        index = index + 1
      end
    end
  end
end

-- Tells the first waiter to recheck after this many ms.
local function recheck_first(ms)
  local first = redis.call('ZRANGE', KEYS[2], 0, 0)[1]
  local waiter = first and waiter_of(first)
  if waiter then notify(first, table.concat({ 'recheck', first, ms, waiter.nonce }, ' ')) end
end

-- Hands a lock with room to the first waiters in the queue, or wakes foreign clients. `held_alone`: as for grant.
--
-- One command deletes two marks. `granted` goes after held_alone, because only the holder that has left can have it.
-- `foreign_waiting_since` goes if no foreign client is subscribed any more.
local function hand_off(kind, held_alone)
  local foreign_clients = listeners(KEYS[5])
  if held_alone or foreign_clients == 0 then
    redis.call('HDEL', KEYS[3], held_alone and 'granted' or 'foreign_waiting_since', foreign_clients == 0 and 'foreign_waiting_since' or 'granted')
  end
  if foreign_clients > 0 and foreign_clients_waited() >= FOREIGN_WAIT_MS then
    give_turn_to_foreign_clients()
    wake_foreign_clients(kind)
    recheck_first(FOREIGN_TURN_MS)
  elseif grant('', 0, held_alone) == 0 then
    wake_foreign_clients(kind)
  end
end
