-- release.lua: this owner releases its lock or leaves the queue; the next waiters are granted.
--
-- KEYS  1 lock  2 queue  3 waiter_options  4 token  5 channel
-- ARGV  1 owner  2 min_token  3 options
-- Options  kind, weight, permits, used, reserved, hold, cluster, publish: JSON after one digit. With 0 and 3 the script must parse it.
--          With 1 (kind "lock", publish is PUBLISH, neither used nor hold) it need not if nobody waits. With 2 (the same, and no
--          tokens shared with foreign clients) it need not if the next waiter is a plain one (lib/waiters.lua), either. 3 is as 2,
--          but with used, or the time is needed.
-- Reply  was holder (0 or 1)         only if the script did not parse the JSON: the common case
--        {was holder (0 or 1), now}
--
-- The script may run any number of times for one release. The owner gives back the tokens that it has reserved and not used: those
-- after used, up to reserved. Both are strings. hold is the rest of a minimum hold, in ms: for this long a placeholder holds the
-- key, an owner for which no client sends requests. The token key stays, because tokens must keep growing after the lock is gone.

local owner, min_token, digit = ARGV[1], tonumber(ARGV[2]), string.sub(ARGV[3], 1, 1)
local is_common = digit == '1' or digit == '2'
local kind, publish, options = 'lock', 'PUBLISH', nil
if not is_common then
  options = cjson.decode(string.sub(ARGV[3], 2))
  kind, publish = options.kind, options.publish
end

local was_holder, receivers, waiting_keys
if kind == 'lock' then
  -- Delete the owner before any other write: a Redis that is out of memory allows HDEL, and lets a script that has written once go on
  -- writing.
  was_holder = redis.pcall('HDEL', KEYS[1], owner)
  -- HDEL fails if the key is no hash any more: then the owner holds nothing. Repeat it after any other error, to raise that error.
  if type(was_holder) == 'table' then
    was_holder = redis.call('TYPE', KEYS[1]).ok == 'hash' and redis.call('HDEL', KEYS[1], owner) or 0
  end
  -- Does an owner of ours wait, or is a grant unconfirmed (a mark in KEYS[3]), or does a client wait for Redisson's fair lock? If not,
  -- only subscribed foreign clients need a notification. Otherwise hand_off, below, takes care of all. The name of the fair lock's queue
  -- follows from the name of the channel.
  local fair_queue = 'redisson_lock_queue' .. string.sub(KEYS[5], #'redisson_lock__channel' + 1)
  waiting_keys = redis.call('EXISTS', KEYS[2], KEYS[3], fair_queue)
  if (is_common or not options.hold) and waiting_keys == 0 then
    receivers = was_holder == 1 and redis.call(publish, KEYS[5], '0') or 0
    -- PUBLISH also counts clients that are subscribed to a pattern and do not wait for the lock, so count again without these.
    if receivers > 0 and is_common then receivers = redis.call('PUBSUB', 'NUMSUB', KEYS[5])[2] end
    if is_common and receivers == 0 then return was_holder end
  end
end

--@include lib/time.lua

-- The most frequent release of a key that several processes want: one plain waiter of ours is next, and no foreign client waits.
-- The script does what grant.lua does for it, in as few steps as possible.
if (digit == '2' or digit == '3') and was_holder == 1 and waiting_keys == 2 and redis.call('EXISTS', KEYS[1]) == 0 then
  local waiter = redis.call('ZRANGE', KEYS[2], 0, 0)[1]
  local note = waiter and redis.call('HGET', KEYS[3], waiter) or ''
  -- Only the note of a plain waiter begins with a number. The comparison fails for any other note.
  if (tonumber(string.sub(note, 1, 13)) or 0) >= now then
    local channel = 'nest_lock_notify:' .. string.sub(waiter, 1, 36)
    local subscribed = redis.call('PUBSUB', 'NUMSUB', KEYS[5], channel)
    if subscribed[2] == 0 and subscribed[4] > 0 then
      min_token = math.max(min_token, tonumber(string.sub(note, 14, 29)))
      local tokens, used, reserved = tonumber(string.sub(note, 39, 47)), nil, nil
      if options then used, reserved = options.used, options.reserved end
      --@include lib/plain-tokens.lua
      if first then
        local lease, waiting = tonumber(string.sub(note, 30, 38)), redis.call('ZCARD', KEYS[2]) - 1
        local message = 'granted ' .. waiter .. ' ' .. text(first) .. ' ' .. text(last) .. ' ' .. text(now) .. ' ' .. lease .. ' ' .. waiting
        redis.call('PUBLISH', channel, message .. ' ' .. string.sub(note, 48))
        redis.call('HSET', KEYS[3], 'granted', waiter)
        redis.call('ZREM', KEYS[2], waiter)
        redis.call('HDEL', KEYS[3], waiter, 'foreign_waiting_since')
        redis.call('HSET', KEYS[1], waiter, '1')
        redis.call('PEXPIRE', KEYS[1], lease)
        return options and { 1, now } or 1
      end
    end
  end
end

options = options or cjson.decode(string.sub(ARGV[3], 2))
local weight, permits, hold, cluster = options.weight, options.permits, options.hold, options.cluster

--@include lib/tokens.lua
--@include lib/holders.lua
--@include lib/foreign-clients.lua
--@include lib/waiters.lua
--@include lib/grant.lua

-- Gives back the tokens that this owner reserved and did not use: lowers the counter to the last token used, unless another grant has
-- taken tokens since. With shared tokens Redisson's counter is lowered, too: if each grant moved it by a whole block, tokens would run
-- ahead of the clock.
local function give_back_tokens()
  local first, last = string.match(redis.call('GET', KEYS[4]) or '', '^(%d+) (%d+)$')
  if last ~= options.reserved then return end
  redis.call('SET', KEYS[4], first .. ' ' .. options.used, 'KEEPTTL')
  if are_shared and redis.call('GET', foreign_counter(KEYS[1])) == last then
    redis.call('SET', foreign_counter(KEYS[1]), options.used)
  end
end

if kind ~= 'lock' then was_holder = leave(owner, kind, weight) end
if was_holder == 1 and options.used then give_back_tokens() end

if receivers then
  -- No owner of ours waits. If a foreign client does, note since when, so that later owners of ours cannot starve it.
  if receivers > 0 and listeners(KEYS[5]) > 0 then foreign_clients_waited() end
  return { was_holder, now }
end

if was_holder == 1 and hold then
  -- For the rest of a minimum hold a placeholder holds the key: an owner id for which no client sends requests. The core makes the same
  -- id (`placeholderOf` in port/lock-store.ts).
  local placeholder = string.gsub(owner, ':', ':-')
  enter(placeholder, kind, weight, permits, hold, 0, 0)
  at_least(KEYS[4], tonumber(token_keep(hold)))
  -- Waiters plan to recheck at the end of the previous, longer lease. Notify the first one that it should recheck sooner.
  wake_foreign_clients(kind)
  recheck_first(math.min(hold, 1000))
end
local is_free = redis.call('EXISTS', KEYS[1]) == 0
-- The holder of a plain lock has no place in the queue, and only its own grant can be unconfirmed. hand_off deletes that mark.
local held_alone = is_free and was_holder == 1 and kind == 'lock'
if not held_alone then
  leave_queue(owner)
  if redis.call('HGET', KEYS[3], 'granted') == owner then redis.call('HDEL', KEYS[3], 'granted') end
end

-- If a writer leaves the queue, the readers behind it may join the readers that hold. Not while a foreign client waits for those readers
-- to release: if new readers kept joining, the lock would stay shared for ever.
if is_free or was_holder == 1 and kind == 'permits' then hand_off(kind, held_alone)
elseif kind == 'permits' or not foreign_clients_are_next() then grant('', 0) end
return { was_holder, now }
