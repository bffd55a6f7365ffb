-- end.lua: this owner gives up its lock or its place in the line; the next in line is granted.
--
-- KEYS  1 lock  2 line  3 info  4 token  5 channel
-- ARGV  1 owner  2 kind  3 publish  4 used  5 more  6 when
-- More  floor, cluster, weight: one text, for the line and for who does not hold alone
-- Reply  {was holder (0 or 1), now}; now may be 0 unless `when` is 1
--
-- Any number of executions is harmless. Of reserved tokens `used` is "last used, last": those between go back; '' means
-- there are none. The token key stays: tokens must keep growing after the lock is gone.

local owner, kind, publish = ARGV[1], ARGV[2], ARGV[3]

local function give_back_tokens()
  if ARGV[4] == '' then return end
  local used, reserved = string.match(ARGV[4], '^(%d+) (%d+)$')
  local first, last = string.match(redis.call('GET', KEYS[4]) or '', '^(%d+) (%d+)$')
  if last == reserved then redis.call('SET', KEYS[4], first .. ' ' .. used, 'KEEPTTL') end
end

local was_holder
if kind == 'lock' then
  -- The delete comes first: it needs no memory, and what follows it may then write.
  was_holder = redis.call('HDEL', KEYS[1], owner)
  if was_holder == 1 then give_back_tokens() end
  if redis.call('EXISTS', KEYS[2], KEYS[3]) == 0 then
    -- Nobody of ours waits. A stranger that hears this is remembered, so that it is not passed over for ever.
    local heard = was_holder == 1 and redis.call(publish, KEYS[5], '0') or 0
    if heard == 0 and ARGV[6] == '0' then return { was_holder, 0 } end
    --@include time.lua
    if heard > 0 then
      redis.call('HSET', KEYS[3], 'since', text(now))
      redis.call('PEXPIRE', KEYS[3], KEEP_MS)
    end
    return { was_holder, now }
  end
end

local floor, cluster, weight = string.match(ARGV[5], '^(%d+) (%d) (%d+)$')
floor, cluster, weight = tonumber(floor), cluster == '1', tonumber(weight)

--@include time.lua
--@include tokens.lua
--@include strangers.lua
--@include holders.lua
--@include grant.lua

if kind ~= 'lock' then
  was_holder = leave(owner, kind, weight)
  if was_holder == 1 then give_back_tokens() end
end
-- Whoever holds a plain lock stands in no line, and only its own grant can be unconfirmed.
local held_alone = was_holder == 1 and kind == 'lock'
if held_alone then redis.call('HDEL', KEYS[3], 'granted')
else
  leave_line(owner)
  if redis.call('HGET', KEYS[3], 'granted') == owner then redis.call('HDEL', KEYS[3], 'granted') end
end

local is_free = redis.call('EXISTS', KEYS[1]) == 0
-- Readers behind a writer that leaves the line enter beside those that are inside; not while a stranger waits for these
-- to go, which then would never happen.
if is_free or was_holder == 1 and kind == 'permits' then pass_on(kind, is_free and held_alone)
elseif kind == 'permits' or not strangers_are_next() then grant('', 0) end
return { was_holder, now }
