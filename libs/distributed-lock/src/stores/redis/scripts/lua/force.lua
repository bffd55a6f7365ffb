-- force.lua: takes the lock from its holders, tells those that are ours, and grants it to the next waiters. With an owner, takes
-- it from this holder only, and no permits from it. An empty owner stands for all holders.
--
-- KEYS  1 lock  2 queue  3 waiter_options  4 token  5 channel
-- ARGV  1 min_token  2 cluster  3 publish  4 owner
-- Reply  {was held (0 or 1), now}

local min_token, cluster, publish, owner = tonumber(ARGV[1]), ARGV[2] == '1', ARGV[3], ARGV[4]

--@include lib/time.lua
--@include lib/tokens.lua
--@include lib/holders.lua
--@include lib/foreign-clients.lua
--@include lib/waiters.lua
--@include lib/grant.lua

local kind, found = 'lock', type_of_lock()
if found == 'hash' then kind = MODES[redis.call('HGET', KEYS[1], 'mode')] or 'lock'
elseif found == 'string' or found == 'none' and type_of_permits() == 'zset' and not has_twin() then kind = 'permits' end
local refused = refusal(kind)
-- A number without permits that are held may be data of the application.
if not refused and found == 'string' and type_of_permits() == 'none' then refused = NO_LOCK end
if refused then return redis.error_reply(refused) end
KEYS[5] = channel_of(kind)

local inside, was_held = { owner }, nil
if owner ~= '' then
  was_held = kind == 'permits' and 0 or leave(owner, kind)
  if was_held == 0 then return { 0, now } end
else
  inside = holders()
  was_held = redis.call('DEL', KEYS[1])
  if kind == 'permits' then was_held = math.max(was_held, redis.call('DEL', permits_key)) end
  redis.call('DEL', holders_key)
end
for _, holder in ipairs(inside) do
  if kind == 'shared' then redis.call('DEL', reader_key(holder, 1)) end
  if is_ours(holder) then notify(holder, 'lost ' .. holder) end
end
redis.call('HDEL', KEYS[3], 'granted')
if was_held == 1 or redis.call('EXISTS', KEYS[2]) == 1 then hand_off(kind) end
return { was_held, now }
