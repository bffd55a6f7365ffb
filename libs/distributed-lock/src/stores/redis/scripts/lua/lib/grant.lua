-- grant.lua: shared by acquire, end and force; not a script of its own.
-- Expects KEYS 1 lock 2 queue 3 meta 4 token 5 channel, time.lua, tokens.lua, foreign-clients.lua,
-- holders.lua, and the locals cluster, publish.
-- The line is a sorted set owner -> ticket; info holds per owner
-- "until subscribed tokens short kind weight permits min_token nonce", and three marks:
-- granted (owner of a grant that was pushed and not yet confirmed), since (a stranger listens since), open (until).

local FOREIGN_WAIT_MS = 200  -- a stranger that listens gets its chance at least this often
local OPEN_MS = 50            -- how long only foreign_clients may take the lock then

local function client_of(owner)
  return string.match(owner, '^(.*):%d+$') or owner
end

local function notification_channel(owner)
  return 'nest_lock_notify:' .. client_of(owner)
end

local function notify(owner, message)
  return redis.call('PUBLISH', notification_channel(owner), message)
end

-- PUBLISH counts those who listen by a pattern, too, such as a tool that looks on: only its own client is the owner's.
local function is_subscribed(owner)
  return redis.call('PUBSUB', 'NUMSUB', notification_channel(owner))[2] > 0
end

local function keep()
  redis.call('PEXPIRE', KEYS[2], KEEP_MS)
  redis.call('PEXPIRE', KEYS[3], KEEP_MS)
end

local function leave_queue(owner)
  redis.call('ZREM', KEYS[2], owner)
  redis.call('HDEL', KEYS[3], owner)
end

local function entry_of(owner)
  local entry = redis.call('HGET', KEYS[3], owner) or ''
  return string.match(entry, '^(%d+) (%d) (%d+) (%d+) (%a+) (%d+) (%d+) (%d+) (%x+)$')
end

-- Whoever got the last grant and never confirmed it is dead or out of reach, with all its places.
local function drop_unconfirmed(asker)
  local granted = redis.call('HGET', KEYS[3], 'granted')
  if not granted or redis.call('EXISTS', KEYS[1]) == 1 then return end
  redis.call('HDEL', KEYS[3], 'granted')
  local client = client_of(granted)
  for _, owner in ipairs(redis.call('ZRANGE', KEYS[2], 0, -1)) do
    if owner ~= asker and client_of(owner) == client then leave_queue(owner) end
  end
end

-- Grants to the live entries in front that may enter, up to the first that may not: nobody is overtaken.
-- Returns how many were granted, whether one stands in the way, and the tokens if the asker was among them. The asker
-- gets its full lease, as it learns of the grant by the reply. `is_free`: its holder has just left it.
local function grant(asker, lease, is_free)
  if not is_free then drop_unconfirmed(asker) end
  local index, count, asker_first, asker_last = 0, 0, nil, nil
  while true do
    local owner = redis.call('ZRANGE', KEYS[2], index, index)[1]
    if not owner then return count, false, asker_first, asker_last end
    local live_until, subscribed, tokens, short, kind, weight, permits, seen, nonce = entry_of(owner)
    if not live_until or tonumber(live_until) < now then
      leave_queue(owner)
    elseif not (is_free and is_alone(kind)) and not may_enter(kind, tonumber(weight), tonumber(permits)) then
      return count, true, asker_first, asker_last
    else
      -- It may have seen larger tokens than whoever frees the lock.
      min_token = math.max(min_token, tonumber(seen))
      local first, last = take_tokens(tonumber(tokens), math.max(lease, tonumber(short)))
      local reached = owner == asker
      if not reached then
        local waiting = redis.call('ZCARD', KEYS[2]) - 1
        local message = { 'granted', owner, text(first), text(last), text(now), short, text(waiting), nonce }
        -- Nobody subscribed a live process whose subscriber reconnects: skip it, it keeps its ticket.
        local receivers = notify(owner, table.concat(message, ' '))
        reached = subscribed == '0' or cluster or receivers > 0 and is_subscribed(owner)
      end
      if reached then
        -- Marked before it leaves the line: info, whose last entry that may be, keeps its expiry so.
        if owner ~= asker and is_alone(kind) then redis.call('HSET', KEYS[3], 'granted', owner) end
        leave_queue(owner)
        enter(owner, kind, tonumber(weight), tonumber(permits), owner == asker and lease or short, first, last)
        count, is_free = count + 1, false
        if owner == asker then asker_first, asker_last = first, last end
        if is_alone(kind) then return count, true, asker_first, asker_last end
      else
        -- Its tokens go back: nobody was told of them.
        count_up(first - 1, first - 1, math.max(lease, tonumber(short)), 1)
        index = index + 1
      end
    end
  end
end

local WAKE_UP = { lock = '0', exclusive = '1', shared = '0' }

local function wake_foreign_clients(kind)
  return redis.call(publish, KEYS[5], WAKE_UP[kind] or is_number(KEYS[1]) and redis.call('GET', KEYS[1]) or '1')
end

-- For how much longer only foreign_clients may take the lock. A mark that is further ahead is from before the clock was set back.
local function open_for()
  local open = redis.call('HGET', KEYS[3], 'open')
  if not open then return 0 end
  local left = tonumber(open) - now
  if left > 0 and left <= OPEN_MS then return left end
  redis.call('HDEL', KEYS[3], 'open')
  return 0
end

-- For how long a stranger has listened, from the first time that this is asked. A mark that is ahead is from before the
-- clock was set back.
local function foreign_clients_waited()
  local since = tonumber(redis.call('HGET', KEYS[3], 'since') or now + 1)
  if since <= now then return now - since end
  redis.call('HSET', KEYS[3], 'since', text(now))
  redis.call('PEXPIRE', KEYS[3], KEEP_MS)
  return 0
end

-- The first waiter asks again after so many ms.
local function recheck_first(ms)
  local first = redis.call('ZRANGE', KEYS[2], 0, 0)[1]
  local nonce = first and select(9, entry_of(first))
  if nonce then notify(first, 'recheck ' .. first .. ' ' .. text(ms) .. ' ' .. nonce) end
end

-- A Java waiter is in no line of ours: once it has listened long enough, the lock is freed for foreign_clients only.
local function open_for_foreign_clients(kind)
  if foreign_clients_waited() < FOREIGN_WAIT_MS then return false end
  redis.call('HDEL', KEYS[3], 'since')
  redis.call('HSET', KEYS[3], 'open', text(now + OPEN_MS))
  keep()
  wake_foreign_clients(kind)
  recheck_first(OPEN_MS)
  return true
end

-- Readers of ours that come one after the other would keep a stranger out for ever: after a while they stand in line.
local function foreign_clients_are_next()
  return listeners(KEYS[5]) > 0 and foreign_clients_waited() >= FOREIGN_WAIT_MS
end

-- There is room: those in front get it, or whoever comes. `is_free`: its holder has just left it, whose grant, if it was
-- pushed, needs no confirmation any more.
local function hand_off(kind, is_free)
  local foreign_clients = listeners(KEYS[5])
  if is_free or foreign_clients == 0 then
    redis.call('HDEL', KEYS[3], is_free and 'granted' or 'since', foreign_clients == 0 and 'since' or 'granted')
  end
  if foreign_clients > 0 and open_for_foreign_clients(kind) then return end
  if grant('', 0, is_free) == 0 then wake_foreign_clients(kind) end
end
