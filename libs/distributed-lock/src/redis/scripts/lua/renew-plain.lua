-- renew-plain.lua: restarts the leases of plain locks, of one or of many at once, each under its grant. Confirms grants by notification.
-- Each lock gets its own answer. Locks of other kinds have renew.lua.
--
-- KEYS  1 lock  2 queue  3 notes  4 token  5 channel, and the same for each further lock
-- ARGV  1 publish  2 notAfter  3 owner  4 lease  5 first  6 last, and the last four for each further lock
-- Reply  {0, now}                 too late: it arrived after its notAfter, so the script did nothing
--        {1, now, waiting ...}    for each lock how many wait for it, or -1 if it is lost
--
-- If Redis has evicted the token key, the script writes the owner's tokens back: its field in the lock is proof enough that it holds.

local publish = ARGV[1]

--@include lib/common.lua
--@include lib/foreign-clients.lua

if now > tonumber(ARGV[2]) then return { 0, now } end

local function renew(lock, queue, notes, token, channel, owner, lease, first, last)
  local field, mode = unpack(redis.call('HMGET', lock, owner, 'mode'))
  if not field then return -1 end
  -- With a mode the lock is shared now: this owner has downgraded after it sent this renewal. Its lease as a reader began later than this
  -- renewal was sent, so there is nothing to restart, and nothing is lost.
  if not mode then
    local keep = token_keep(lease)
    local tokens = redis.call('GETEX', token, 'PX', keep)
    if not tokens then redis.call('SET', token, first .. ' ' .. last, 'PX', keep)
    elseif string.match(tokens, '^%d+') ~= first then return -1 end
    redis.call('PEXPIRE', lock, lease)
    redis.call('HDEL', notes, UNCONFIRMED)
  end
  return redis.call('ZCARD', queue) + math.min(listeners(channel), 1)
end

local reply = { 1, now }
for i = 0, #KEYS / 5 - 1 do
  local k, a = 5 * i, 2 + 4 * i
  reply[i + 3] = renew(KEYS[k + 1], KEYS[k + 2], KEYS[k + 3], KEYS[k + 4], KEYS[k + 5],
    ARGV[a + 1], ARGV[a + 2], ARGV[a + 3], ARGV[a + 4])
end
return reply
