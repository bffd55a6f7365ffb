-- acquire.lua: asks for the lock, stands in line for it, or looks again; the same owner is answered the same.
--
-- KEYS  1 lock  2 queue  3 meta  4 token  5 channel
-- ARGV  1 owner  2 lease  3 notAfter  4 min_token  5 more
-- More  plain, kind, tokens, wait, ticket, subscribed, cluster, publish, short, weight, permits, nonce, min_last_token: one text, since
--       each argument costs time, and the common case needs to know only that it may be one
-- Reply  now * 1000 + n                              granted, with this token, and nobody waits: the common case
--        {0, now}                                    too late: nothing was done
--        {1, now, first token, last token, waiting}  granted
--        {2, now, holder, remaining, ticket}          in line
--        {3, now, holder, remaining}                 busy, and the asker does not wait
--
-- Times in ms; nonce is repeated in what is pushed to the asker, so that nobody else can forge it; a ticket that is not
-- asked for again within wait is dropped, and wait 0 does not enter the line; ticket 0 is a new one; min_last_token is the last
-- token that an owner that holds wants to have, or 0; remaining -1 is a lease without end; plain is 1 where a lock of the
-- kind "lock" is asked for with one token and a lease of half a day at most, and no tokens are shared with Java.

local owner, min_token = ARGV[1], tonumber(ARGV[4])

--@include lib/time.lua

if now > tonumber(ARGV[3]) then return { 0, now } end

-- Nobody holds, nobody waits, here or there: the common case, in as few steps as can be.
if string.sub(ARGV[5], 1, 1) == '1' and redis.call('EXISTS', KEYS[1], KEYS[2], KEYS[3]) == 0 then
  local token = (min_token < micros or min_token > micros + FARTHEST_AHEAD) and micros or min_token + 1
  local counted = redis.call('SET', KEYS[4], string.format('%.0f', token), 'PX', TOKEN_KEEP_MS, 'GET')
  if not counted or (tonumber(counted) or tonumber(string.match(counted, '%d+$')) or 0) < token then
    redis.call('HSET', KEYS[1], owner, '1')
    redis.call('PEXPIRE', KEYS[1], ARGV[2])
    -- Mostly the token is the time, and says it.
    if token == micros then return token end
    return { 1, now, token, token, 0 }
  end
  -- The clock is behind: counted on from what was there, in the general way.
  redis.call('SET', KEYS[4], counted, 'PX', TOKEN_KEEP_MS)
end

local kind, tokens, wait, presented, subscribed, cluster, publish, short, weight, permits, nonce, min_last_token =
  string.match(ARGV[5], '^%d (%a+) (%d+) (%d+) (%d+) (%d) (%d) (%u+) (%d+) (%d+) (%d+) (%x+) (%d+)$')
local lease = tonumber(ARGV[2])
wait, cluster, min_last_token = tonumber(wait), cluster == '1', tonumber(min_last_token)

--@include lib/numbers.lua
--@include lib/tokens.lua
--@include lib/foreign-clients.lua
--@include lib/holders.lua
--@include lib/grant.lua

local entry = table.concat({ subscribed, tokens, short, kind, weight, permits, ARGV[4], nonce }, ' ')
weight, permits = tonumber(weight), tonumber(permits)

-- A stranger that listens counts as one that waits, for those who may pass the lock on among themselves.
local function granted(first, last)
  local foreign_clients = tokens == '1' and 0 or math.min(1, listeners(KEYS[5]))
  return { 1, now, first, last, redis.call('ZCARD', KEYS[2]) + foreign_clients }
end

if holds(owner, kind) then
  local taken = is_alone(kind) and redis.call('GET', KEYS[4]) or redis.call('HGET', holders_key, owner)
  local first, last = first_and_last(taken or '')
  if not first then first, last = take_tokens(1, lease) end
  if min_last_token > last then
    last = min_last_token
    local _, counted = first_and_last(redis.call('GET', KEYS[4]) or '')
    if is_alone(kind) or last > (counted or 0) then count_up(first, last, lease, 1) end
  end
  enter(owner, kind, weight, permits, lease, first, last)
  redis.call('HDEL', KEYS[3], 'granted')
  leave_queue(owner)
  return granted(first, last)
end

local function join_queue()
  local ticket = redis.call('ZSCORE', KEYS[2], owner)
  if not ticket then
    local tail = redis.call('ZRANGE', KEYS[2], -1, -1, 'WITHSCORES')
    ticket = tonumber(presented)
    -- Places are times, so that one that is presented again after the line was lost is ahead of newer ones.
    if ticket == 0 then ticket = math.max(micros, tonumber(tail[2] or 0) + 1) end
    redis.call('ZADD', KEYS[2], text(ticket), owner)
  end
  redis.call('HSET', KEYS[3], owner, text(now + wait) .. ' ' .. entry)
  keep()
  return tonumber(ticket)
end

local function queued_or_busy()
  local inside, remaining = holders()
  if #inside == 0 then remaining = open_for() end
  if wait == 0 then return { 3, now, inside[1] or '', remaining } end
  local ticket = join_queue()
  local waiting = redis.call('ZCARD', KEYS[2])
  -- Those who are not told learn it from their next renewal.
  for i = 1, math.min(#inside, 16) do
    local holder = inside[i]
    if is_ours(holder) then notify(holder, 'contended ' .. holder .. ' ' .. waiting) end
  end
  return { 2, now, inside[1] or '', remaining, ticket }
end

if not may_enter(kind, weight, permits) then
  local refused = refusal(kind)
  if refused then return redis.error_reply(refused) end
  return queued_or_busy()
end

if open_for() > 0 then return queued_or_busy() end
if kind == 'shared' and redis.call('EXISTS', KEYS[1]) == 1 and foreign_clients_are_next() then return queued_or_busy() end

if wait > 0 then join_queue() end
local count, blocked, first, last = grant(owner, lease)
if not first and not blocked and may_enter(kind, weight, permits) then
  first, last = take_tokens(tonumber(tokens), lease)
  enter(owner, kind, weight, permits, lease, first, last)
  leave_queue(owner)
end
if first then return granted(first, last) end
return queued_or_busy()
