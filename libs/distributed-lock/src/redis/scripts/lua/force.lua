-- force.lua: takes the lock from its holders, notifies those that are ours, and grants the lock to the next waiters.
--
-- KEYS  1 lock  2 queue  3 notes  4 token  5 channel
-- ARGV  1 min_token  2 cluster  3 publish  4 by  5 owners
-- Reply  {outcome, now}
--
-- owners is a JSON list of the holders that lose the lock, or '' if all of them do. outcome is 1 if a holder lost the lock, 2 if
-- only holders that are not in the list have it, and 0 if nobody has it. by names, for people, who takes the lock. Each of our
-- holders that loses it gets a message "forced" with that name, unless the name is '', and then a message "lost", the only one of
-- the two that older releases of this library understand.

local min_token, cluster, publish, by = tonumber(ARGV[1]), ARGV[2] == '1', ARGV[3], ARGV[4]

--@include lib/common.lua
--@include lib/tokens.lua
--@include lib/holders.lua
--@include lib/foreign-clients.lua
--@include lib/waiters.lua
--@include lib/grant.lua

local kind, found = 'lock', type_of_lock()
if found == 'hash' then kind = MODES[redis.call('HGET', KEYS[1], 'mode')] or 'lock'
elseif found == 'string' or found == 'none' and type_of_permits() == 'zset' and not other_name_has_permits() then kind = 'permits' end
local refused = refusal(kind)
-- If key 1 is a number and nobody holds permits, the number may be data of the application. Do not delete it.
if not refused and found == 'string' and type_of_permits() == 'none' then refused = NO_LOCK end
if refused then return redis.error_reply(refused) end
KEYS[5] = channel_of(kind)

-- Removes all permits of this owner. Returns 1 if it had any.
local function take_permits(owner)
  local entry, weight = permit_of(owner), 0
  if not entry or type_of_permits() ~= 'zset' then return 0 end
  while redis.call('ZSCORE', permits_key, permit(entry, weight + 1)) do weight = weight + 1 end
  return leave(entry, kind, weight)
end

-- Removes this owner from the hash. Returns 1 if it held the lock. A thread of Redisson that holds the write lock may hold the read
-- lock, too, in a second field.
local function take_lock(owner)
  if not string.find(owner, OWNER) then return 0 end
  redis.call('HDEL', holders_key, owner)
  return math.min(1, redis.call('HDEL', KEYS[1], owner, owner .. ':write'))
end

local losers, was_held = {}, 0
if ARGV[5] == '' then
  losers = holders()
  was_held = redis.call('DEL', KEYS[1])
  if kind == 'permits' then was_held = math.max(was_held, redis.call('DEL', permits_key)) end
  redis.call('DEL', holders_key)
else
  local take = kind == 'permits' and take_permits or take_lock
  for _, owner in ipairs(cjson.decode(ARGV[5])) do
    if take(owner) == 1 then
      losers[#losers + 1] = owner
      was_held = 1
    end
  end
  if kind ~= 'permits' and redis.call('HLEN', KEYS[1]) == redis.call('HEXISTS', KEYS[1], 'mode') then redis.call('DEL', KEYS[1])
  elseif kind == 'shared' and was_held == 1 then sweep_readers() end
  if was_held == 0 and #holders() > 0 then return { 2, now } end
end
for _, loser in ipairs(losers) do
  if kind == 'shared' or kind == 'exclusive' then redis.call('DEL', reader_key(loser, 1)) end
  if is_ours(loser) then
    if by ~= '' then notify(loser, 'forced ' .. loser .. ' ' .. by) end
    notify(loser, 'lost ' .. loser)
  end
end
redis.call('HDEL', KEYS[3], UNCONFIRMED)
if was_held == 1 or redis.call('EXISTS', KEYS[2]) == 1 then hand_off(kind) end
return { was_held, now }
