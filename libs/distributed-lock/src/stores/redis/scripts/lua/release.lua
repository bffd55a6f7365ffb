-- release.lua: this owner gives up its lock or its ticket in the line; the next in line is granted.
--
-- KEYS  1 lock  2 queue  3 meta  4 token  5 channel
-- ARGV  1 owner  2 more
-- More  plain, when, kind, publish, used, reserved, min_token, cluster, weight, permits, keep: one text, since each argument costs
--       time
-- Reply  was holder (0 or 1)         the common case: a plain lock that nobody waits for
--        {was holder (0 or 1), now}
--
-- Any number of executions is harmless. Of the tokens up to `reserved` those after `used` go back; 0 and 0 mean that there
-- are none. `keep` is what is left of a minimum hold, in ms: the key stays held for so long, under an owner that sends nothing.
-- `plain` is 1 where `when` and `keep` are 0, and the three after `when` are lock, PUBLISH and 0. `now` may be 0 unless `when`
-- is 1. The token key stays: tokens must keep growing after the lock is gone.

local owner = ARGV[1]
local when, kind, publish, used, reserved, keep_ms = '0', 'lock', 'PUBLISH', '0', '0', '0'
if string.sub(ARGV[2], 1, 1) == '0' then
  when, kind, publish, used, reserved = string.match(ARGV[2], '^%d (%d) (%a+) (%u+) (%d+) (%d+)')
  keep_ms = string.match(ARGV[2], '%d+$')
end

local function give_back_tokens()
  if reserved == '0' then return end
  local first, last = string.match(redis.call('GET', KEYS[4]) or '', '^(%d+) (%d+)$')
  if last == reserved then redis.call('SET', KEYS[4], first .. ' ' .. used, 'KEEPTTL') end
end

local was_holder
if kind == 'lock' then
  -- The delete comes first: it needs no memory, and what follows it may then write.
  was_holder = redis.pcall('HDEL', KEYS[1], owner)
  -- In what is no hash any more it holds nothing. Any other error comes again, and is raised.
  if type(was_holder) == 'table' then
    was_holder = redis.call('TYPE', KEYS[1]).ok == 'hash' and redis.call('HDEL', KEYS[1], owner) or 0
  end
  if was_holder == 1 then give_back_tokens() end
  if keep_ms == '0' and redis.call('EXISTS', KEYS[2], KEYS[3]) == 0 then
    -- Nobody of ours waits. A stranger that subscribed this is remembered, so that it is not passed over for ever.
    local heard = was_holder == 1 and redis.call(publish, KEYS[5], '0') or 0
    if heard > 0 then
      --@include lib/foreign-clients.lua
      heard = listeners(KEYS[5])
    end
    if heard == 0 and when == '0' then return was_holder end
    --@include lib/time.lua
    --@include lib/numbers.lua
    if heard > 0 then
      redis.call('HSET', KEYS[3], 'since', text(now))
      redis.call('PEXPIRE', KEYS[3], KEEP_MS)
    end
    return { was_holder, now }
  end
end

local min_token, cluster, weight, permits = string.match(ARGV[2], '(%d+) (%d) (%d+) (%d+) %d+$')
min_token, cluster, weight, permits, keep_ms = tonumber(min_token), cluster == '1', tonumber(weight), tonumber(permits), tonumber(keep_ms)

--@include lib/time.lua
--@include lib/numbers.lua
--@include lib/tokens.lua
--@include lib/foreign-clients.lua
--@include lib/holders.lua
--@include lib/grant.lua

if kind ~= 'lock' then
  was_holder = leave(owner, kind, weight)
  if was_holder == 1 then give_back_tokens() end
end
if was_holder == 1 and keep_ms > 0 then
  -- The id of port/lock-store's keeperOf: no request names it.
  local keeper = string.gsub(owner, ':', ':-')
  enter(keeper, kind, weight, permits, keep_ms, 0, 0)
  at_least(KEYS[4], tonumber(token_keep(keep_ms)))
  -- Who waits has seen the end of the longer lease.
  wake_foreign_clients(kind)
  recheck_first(math.min(keep_ms, 1000))
end
local is_free = redis.call('EXISTS', KEYS[1]) == 0
-- Whoever held a plain lock stands in no line, and only its own grant can be unconfirmed.
local held_alone = is_free and was_holder == 1 and kind == 'lock'
if not held_alone then
  leave_queue(owner)
  if redis.call('HGET', KEYS[3], 'granted') == owner then redis.call('HDEL', KEYS[3], 'granted') end
end

-- Readers behind a writer that leaves the line enter beside those that are inside; not while a stranger waits for these
-- to go, which then would never happen.
if is_free or was_holder == 1 and kind == 'permits' then hand_off(kind, held_alone)
elseif kind == 'permits' or not foreign_clients_are_next() then grant('', 0) end
return { was_holder, now }
