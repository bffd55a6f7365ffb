-- grant.lua: shared by acquire, release, renew and force; not a script of its own. Grants the lock to the owners at the head of the queue.
-- Expects KEYS 1 lock 2 queue 3 notes 4 token 5 channel, common.lua, tokens.lua, foreign-clients.lua, holders.lua, waiters.lua, and the
-- locals cluster, publish. The short form for the most frequent case is grant-plain.lua.

local function notify(owner, message)
  return redis.call('PUBLISH', notification_channel(owner), message)
end

-- Whether the owner's client is subscribed to its notification channel. The reply of PUBLISH does not tell: it also counts subscribers to
-- patterns, such as a monitoring tool.
local function is_subscribed(owner)
  return redis.call('PUBSUB', 'NUMSUB', notification_channel(owner))[2] > 0
end

local function leave_queue(owner)
  redis.call('ZREM', KEYS[2], owner)
  redis.call('HDEL', KEYS[3], owner)
end

-- If a waiter was granted the lock, has never confirmed it, and its initial lease has expired, then its client has crashed or cannot
-- be reached. All waiters of that client leave the queue, or each of them would block the lock for one more initial lease.
local function drop_unconfirmed(asker)
  local granted = redis.call('HGET', KEYS[3], UNCONFIRMED)
  if not granted or redis.call('EXISTS', KEYS[1]) == 1 then return end
  redis.call('HDEL', KEYS[3], UNCONFIRMED)
  local channel = notification_channel(granted)
  for _, owner in ipairs(redis.call('ZRANGE', KEYS[2], 0, -1)) do
    if owner ~= asker and notification_channel(owner) == channel then leave_queue(owner) end
  end
end

-- Grants the lock to waiters in the order of their tickets, until one may not enter: several readers or holders of permits may hold
-- together, anybody else holds alone. `asker` is the owner whose request runs this script, or ''. `just_freed` says that the only holder
-- of a plain lock has just left it, so that nobody needs to check whether the lock is free.
--
-- Returns how many were granted, whether a waiter is left that may not enter, and the first and last token of the asker if it was granted.
local function grant(asker, lease, just_freed)
  if not just_freed then drop_unconfirmed(asker) end
  local index, count, asker_first, asker_last = 0, 0, nil, nil
  while true do
    -- 1. Take the first waiter, or the next one after those that were skipped in step 5.
    local owner = redis.call('ZRANGE', KEYS[2], index, index)[1]
    if not owner then return count, false, asker_first, asker_last end
    local waiter = waiter_of(owner)
    if not waiter then
      -- 2. Drop a waiter that has not rechecked in time: its process has crashed, or its caller has left.
      leave_queue(owner)
    elseif not (just_freed and is_alone(waiter.kind)) and not may_enter(waiter.kind, waiter.weight, waiter.permits) then
      -- 3. If there is no room for this waiter, stop. Nobody behind it is granted either, or later owners could overtake it for ever.
      return count, true, asker_first, asker_last
    else
      -- 4. Reserve the waiter's tokens, above the largest token that its process has seen: that process may know of larger ones than the
      --    process that frees the lock.
      min_token = math.max(min_token, tonumber(waiter.min_token))
      local longest = math.max(lease, waiter.initial_lease)
      local first, last = take_tokens(waiter.tokens, longest)
      local reached = owner == asker
      if not reached then
        -- 5. Notify the waiter, unless it is the asker, which gets the reply. If its client was subscribed when it joined the queue and
        --    is not now, the client reconnects or has crashed: skip the waiter, and let it keep its ticket. If its client was not
        --    subscribed, grant nevertheless, because the next recheck finds the grant.
        local receivers = notify(owner, granted_message(owner, waiter, first, last))
        reached = not waiter.subscribed or cluster or receivers > 0 and is_subscribed(owner)
      end
      if reached then
        -- 6. Make the waiter a holder. If it was notified, it holds for its initial lease until it confirms the grant; the asker knows of
        --    its grant and gets its whole lease. The mark UNCONFIRMED is written before the waiter leaves the queue: leaving may delete the
        --    last entry of the hash, and with the hash its expiry, and a mark written after that would stay for ever.
        if owner ~= asker and is_alone(waiter.kind) then redis.call('HSET', KEYS[3], UNCONFIRMED, owner) end
        leave_queue(owner)
        local own_lease = owner == asker and lease or waiter.initial_lease
        enter(owner, waiter.kind, waiter.weight, waiter.permits, own_lease, first, last)
        count, just_freed = count + 1, false
        if owner == asker then asker_first, asker_last = first, last end
        -- 7. Go on with the next waiter, unless this one holds alone.
        if is_alone(waiter.kind) then return count, true, asker_first, asker_last end
      else
        -- The waiter is skipped: take the tokens of step 4 back, because no client has seen them.
        count_up(first - 1, first - 1, longest)
        index = index + 1
      end
    end
  end
end

-- Notifies the first waiter that it should recheck after this many ms.
local function recheck_first(ms)
  local first = redis.call('ZRANGE', KEYS[2], 0, 0)[1]
  local waiter = first and waiter_of(first)
  if waiter then notify(first, table.concat({ 'recheck', first, ms, waiter.nonce }, ' ')) end
end

-- Hands on a lock that has room: to foreign clients if they have waited for long enough, otherwise to the waiters at the head of
-- our queue. If no waiter was granted, foreign clients are woken. `just_freed`: as for grant.
local function hand_off(kind, just_freed)
  local foreign_clients = listeners(KEYS[5])
  -- Delete two marks by one command, which names one of them twice if the other one stays: UNCONFIRMED, which only the holder that has just left can have, and "foreign_waiting_since" if no
  -- foreign client is subscribed any more.
  if just_freed or foreign_clients == 0 then
    redis.call('HDEL', KEYS[3], just_freed and UNCONFIRMED or 'foreign_waiting_since', foreign_clients == 0 and 'foreign_waiting_since' or UNCONFIRMED)
  end
  if foreign_clients > 0 and foreign_clients_waited() >= FOREIGN_WAIT_MS then
    give_turn_to_foreign_clients()
    wake_foreign_clients(kind)
    recheck_first(FOREIGN_TURN_MS)
  elseif grant('', 0, just_freed) == 0 then
    wake_foreign_clients(kind)
  end
end
