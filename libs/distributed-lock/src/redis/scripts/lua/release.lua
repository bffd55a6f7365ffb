-- release.lua: this owner releases its lock or leaves the queue; the next waiters are granted.
--
-- KEYS  1 lock  2 queue  3 notes  4 token  5 channel
-- ARGV  1 owner  2 min_token  3 options
-- Options  kind, weight, permits, used, reserved, hold, cluster, publish: JSON after two flags. A flag that is not set is written as "-".
-- Flags    p: plain. The owner gives up a lock of the kind "lock", by tokens that no foreign client shares, without a minimum hold, and on
--             a server whose publish is PUBLISH
--          s: short. The common case needs nothing of the JSON: as p, but the tokens may be shared. There is no used, and the caller
--             does not need the time. Unlike in acquire.lua, s can be set without p
-- Reply  was holder (0 or 1)         only if the script did not parse the JSON: the common case
--        {was holder (0 or 1), now}
--
-- The script may run any number of times for one release. The owner gives back the tokens that it has reserved and not used: those
-- after used, up to reserved. Both are strings. hold is the rest of a minimum hold, in ms: for this long a placeholder holds the
-- key, an owner for which no client sends requests. The token key stays, because tokens must keep growing after the lock is gone.

local owner, min_token = ARGV[1], tonumber(ARGV[2])
local is_plain, is_short = string.sub(ARGV[3], 1, 1) == 'p', string.sub(ARGV[3], 2, 2) == 's'
local kind, publish, options = 'lock', 'PUBLISH', nil
if not is_short then
  options = cjson.decode(string.sub(ARGV[3], 3))
  kind, publish = options.kind, options.publish
end

-- Most releases end in step 2 or 3, and parse no JSON. All others go on with step 4.

local was_holder, receivers, existing_keys
if kind == 'lock' then
  -- 1. Take the lock from the owner.
  -- Delete the owner before any other write: a Redis that is out of memory allows HDEL, and lets a script that has written once go on
  -- writing.
  was_holder = redis.pcall('HDEL', KEYS[1], owner)
  -- HDEL fails if the key is no hash any more: then the owner holds nothing. Repeat it after any other error, to raise that error.
  if type(was_holder) == 'table' then
    was_holder = redis.call('TYPE', KEYS[1]).ok == 'hash' and redis.call('HDEL', KEYS[1], owner) or 0
  end
  -- 2. Does an owner of ours wait, or is a grant unconfirmed (a mark in KEYS[3]), or does a client wait for Redisson's fair lock? If not,
  -- only subscribed foreign clients need a notification. Otherwise hand_off, below, takes care of all. The name of the fair lock's queue
  -- follows from the name of the channel.
  local fair_queue = 'redisson_lock_queue' .. string.sub(KEYS[5], #'redisson_lock__channel' + 1)
  existing_keys = redis.call('EXISTS', KEYS[2], KEYS[3], fair_queue)
  if (is_short or not options.hold) and existing_keys == 0 then
    receivers = was_holder == 1 and redis.call(publish, KEYS[5], '0') or 0
    -- PUBLISH also counts clients that are subscribed to a pattern and do not wait for the lock, so count again without these.
    if receivers > 0 and is_short then receivers = redis.call('PUBSUB', 'NUMSUB', KEYS[5])[2] end
    if is_short and receivers == 0 then return was_holder end
  end
end

--@include lib/common.lua
--@include lib/tokens-plain.lua
--@include lib/waiters.lua
--@include lib/grant-plain.lua

-- 3. The most frequent release of a key that several processes want ends here: our queue and its notes exist, and Redisson's fair queue
--    does not. grant_plain_first refuses any other two of these keys.
if is_plain and was_holder == 1 and existing_keys == 2 and redis.call('EXISTS', KEYS[1]) == 0 then
  local used, reserved = nil, nil
  if options then used, reserved = options.used, options.reserved end
  if grant_plain_first(used, reserved) then return options and { 1, now } or 1 end
end

options = options or cjson.decode(string.sub(ARGV[3], 3))
local weight, permits, hold, cluster = options.weight, options.permits, options.hold, options.cluster

--@include lib/tokens.lua
--@include lib/holders.lua
--@include lib/foreign-clients.lua
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

-- 4. Every other release: locks of other kinds, tokens to give back, foreign clients, a minimum hold, an owner that only leaves the queue.
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
local just_freed = is_free and was_holder == 1 and kind == 'lock'
if not just_freed then
  leave_queue(owner)
  if redis.call('HGET', KEYS[3], UNCONFIRMED) == owner then redis.call('HDEL', KEYS[3], UNCONFIRMED) end
end

-- If a writer leaves the queue, the readers behind it may join the readers that hold. Not while a foreign client waits for those readers
-- to release: if new readers kept joining, the lock would stay shared for ever.
if is_free or was_holder == 1 and kind == 'permits' then hand_off(kind, just_freed)
elseif kind == 'permits' or not foreign_clients_are_next() then grant('', 0) end
return { was_holder, now }
