-- acquire.lua: an owner asks for the lock, joins the queue, or asks again (a recheck). The same owner may repeat any request.
--
-- KEYS  1 lock  2 queue  3 notes  4 token  5 channel, with the restart guard 6 mark
-- ARGV  1 owner  2 lease  3 notAfter  4 min_token  5 options, with the restart guard 6 longest
-- Options  kind, weight, permits, tokens, wait, ticket, initial_lease, subscribed, nonce, max_waiting, cluster, publish:
--          JSON after two flags. A flag that is not set is written as "-".
-- Flags    p: plain. The owner asks for a lock of the kind "lock", for half a day at most, by tokens that no foreign client shares
--          s: short. The common case needs nothing of the JSON: the owner asks for one token
-- Reply  token                                       granted, and nobody waits. It is the server's time in µs: the common case
--        {0, now}                                    too late: the request arrived after its notAfter, so the script did nothing
--        {1, now, first token, last token, waiting}  granted
--        {2, now, holder, remaining, ticket}         queued; with max_waiting a sixth part says how many other owners wait
--        {3, now, holder, remaining}                 busy, and the owner does not wait
--        {3, now, holder, remaining, 0, waiting}     busy, because max_waiting other owners wait already
--        {4, now, left}                              unready: the restart guard grants nothing for another `left` ms
--
-- Times are in ms. Only the kind "permits" has the fields weight and permits. wait is not how long the caller waits, but for how long the
-- owner may be silent: if it does not recheck within that time, the next script that looks at its place in the queue removes it. With
-- wait 0 it does not join the queue. ticket 0 requests a new ticket; tickets are strings, because cjson writes only 14 digits of a number. A waiter that is
-- granted the lock by a notification gets the initial_lease. The notification repeats the nonce, so that nobody else can forge it.
-- remaining -1 is a lease that never expires.

local owner, min_token = ARGV[1], tonumber(ARGV[4])
local is_plain, is_short = string.sub(ARGV[5], 1, 1) == 'p', string.sub(ARGV[5], 2, 2) == 's'

-- Defines now, micros, text, KEEP_MS, TOKEN_KEEP_MS and UNCONFIRMED.
--@include lib/common.lua

-- 1. Refuse a request that comes after its deadline. Its caller may have left by now, and then nobody would release the lock.
if now > tonumber(ARGV[3]) then return { 0, now } end

-- 2. With the restart guard, grant nothing until all leases have expired that the server may have lost with its data. The part defines
--    left, in ms.
if KEYS[6] then
  --@include lib/restart-guard.lua
  if left > 0 then return { 4, now, left } end
end

--@include lib/tokens-plain.lua

-- 3. If nobody holds the lock or waits for it, grant it. Most requests end here, so this path neither parses the options nor loads the
--    functions below.
if is_plain and is_short and redis.call('EXISTS', KEYS[1], KEYS[2], KEYS[3]) == 0 then
  local first = take_plain_tokens(1)
  if first then
    redis.call('HSET', KEYS[1], owner, '1')
    redis.call('PEXPIRE', KEYS[1], ARGV[2])
    -- Usually the token is the server's time in microseconds. Then the reply is one number, which tells the client both.
    if first == micros then return first end
    return { 1, now, first, first, 0 }
  end
end

local options, lease = cjson.decode(string.sub(ARGV[5], 3)), tonumber(ARGV[2])
local kind, weight, permits, tokens = options.kind, options.weight, options.permits, options.tokens
local cluster, publish, max_waiting = options.cluster, options.publish, options.max_waiting
options.max_waiting = nil -- The rest may become the note of this waiter, and max_waiting counts for this request only.

--@include lib/tokens.lua
--@include lib/holders.lua
--@include lib/foreign-clients.lua
--@include lib/waiters.lua
--@include lib/grant.lua

-- The reply to an owner that is granted the lock. A subscribed foreign client counts as one more waiter, so that the holder's process
-- starts its hand-off budget. An owner that has reserved only one token makes no local hand-off, so then the script does not look for
-- foreign clients.
local function granted(first, last)
  local foreign_clients = tokens == 1 and 0 or math.min(1, listeners(KEYS[5]))
  return { 1, now, first, last, redis.call('ZCARD', KEYS[2]) + foreign_clients }
end

-- 4. If this owner has the lock already, repeat the grant: the first reply was lost, or the recheck was sent before the notification of
--    the grant arrived. The owner gets the same tokens and its whole lease, and the grant is confirmed. If it asks for more tokens than
--    it has reserved, reserve the rest.
if holds(owner, kind) then
  local taken = is_alone(kind) and redis.call('GET', KEYS[4]) or redis.call('HGET', holders_key, owner)
  local first, last = first_and_last(taken or '')
  if not first then first, last = take_tokens(1, lease) end
  if first + tokens - 1 > last then
    last = first + tokens - 1
    local _, counted = first_and_last(redis.call('GET', KEYS[4]) or '')
    if is_alone(kind) or last > (counted or 0) then count_up(first, last, lease) end
  end
  enter(owner, kind, weight, permits, lease, first, last)
  redis.call('HDEL', KEYS[3], UNCONFIRMED)
  leave_queue(owner)
  return granted(first, last)
end

local function join_queue()
  local ticket = redis.call('ZSCORE', KEYS[2], owner)
  if not ticket then
    local tail = redis.call('ZRANGE', KEYS[2], -1, -1, 'WITHSCORES')
    ticket = tonumber(options.ticket)
    -- A new ticket is the server's time in microseconds. If the server loses the queue, waiters present their old tickets, and so
    -- come before newcomers again.
    if ticket == 0 then ticket = math.max(micros, tonumber(tail[2] or 0) + 1) end
    redis.call('ZADD', KEYS[2], text(ticket), owner)
  end
  redis.call('HSET', KEYS[3], owner, note_of(options, min_token, is_plain))
  redis.call('PEXPIRE', KEYS[2], KEEP_MS)
  redis.call('PEXPIRE', KEYS[3], KEEP_MS)
  return tonumber(ticket)
end

-- Computed here, because step 7 joins the queue before queued_or_busy asks.
local is_newcomer = max_waiting and not redis.call('ZSCORE', KEYS[2], owner)

-- How many other owners wait. Removes those that have stopped rechecking, because a crashed client must not keep others out.
local function count_others()
  local others = 0
  for _, other in ipairs(redis.call('ZRANGE', KEYS[2], 0, -1)) do
    if not waiter_of(other) then leave_queue(other)
    elseif other ~= owner then others = others + 1 end
  end
  return others
end

-- The reply to an owner that cannot have the lock now: it joins the queue, or is told that the lock is busy. The holders' processes
-- are notified that another owner waits.
local function queued_or_busy()
  local inside, remaining = holders()
  if #inside == 0 then remaining = foreign_turn_left() end
  if options.wait == 0 then return { 3, now, inside[1] or '', remaining } end
  local others = max_waiting and count_others()
  if is_newcomer and others >= max_waiting then
    leave_queue(owner)
    return { 3, now, inside[1] or '', remaining, 0, others }
  end
  local ticket = join_queue()
  local waiting = redis.call('ZCARD', KEYS[2])
  -- At most 16 holders are notified. The others learn from the reply to their next renewal that somebody waits.
  for i = 1, math.min(#inside, 16) do
    local holder = inside[i]
    if is_ours(holder) then notify(holder, 'contended ' .. holder .. ' ' .. waiting) end
  end
  return { 2, now, inside[1] or '', remaining, ticket, others or nil }
end

-- 5. If others hold the lock, queue this owner or reply that the lock is busy. If the key holds data of the application, refuse.
if not may_enter(kind, weight, permits) then
  local refused = refusal(kind)
  if refused then return redis.error_reply(refused) end
  return queued_or_busy()
end

-- 6. If foreign clients have their turn now, wait. A new reader also waits if a foreign client has been subscribed for long, because
--    readers of ours that keep joining would starve it.
if foreign_turn_left() > 0 then return queued_or_busy() end
if kind == 'shared' and redis.call('EXISTS', KEYS[1]) == 1 and foreign_clients_are_next() then return queued_or_busy() end

-- 7. There is room, but others may have waited for longer. So join the queue, and grant to the waiters at its head. This owner is granted
--    if the room reaches as far as its ticket.
if options.wait > 0 then join_queue() end
local _, blocked, first, last = grant(owner, lease)
-- 8. An owner that does not wait is not in the queue. It takes the room that is left, unless a waiter needs it.
if not first and not blocked and may_enter(kind, weight, permits) then
  first, last = take_tokens(tokens, lease)
  enter(owner, kind, weight, permits, lease, first, last)
  leave_queue(owner)
end
if first then return granted(first, last) end
return queued_or_busy()
