-- renew.lua: restarts the lease of this owner under this grant, and confirms a grant by notification. Downgrades a lock. The renewals of
-- plain locks have renew-plain.lua.
--
-- KEYS  1 lock  2 queue  3 notes  4 token  5 channel
-- ARGV  1 owner  2 lease  3 first  4 last  5 notAfter  6 options
-- Options  kind, weight, permits, min_token, cluster, publish: JSON
-- Reply  {0, now}           lost: held by another, by nobody, or by this owner under another grant
--        {1, now, waiting}  renewed; waiting counts our queue, and a foreign client that listens as one
--        {2, now}           too late: it came after its notAfter, so nothing was done: an old renewal must not shorten a newer lease
--
-- An owner that holds alone and renews as "shared" downgrades to a reader. If Redis has evicted the token key, the script writes
-- the owner's tokens back: the owner's field in the lock is proof enough that it holds.

local owner, lease, options = ARGV[1], tonumber(ARGV[2]), cjson.decode(ARGV[6])
local kind, weight, permits = options.kind, options.weight, options.permits
local min_token, cluster, publish = options.min_token, options.cluster, options.publish

--@include lib/common.lua
--@include lib/foreign-clients.lua

if now > tonumber(ARGV[5]) then return { 2, now } end

local function renewed()
  return { 1, now, redis.call('ZCARD', KEYS[2]) + math.min(listeners(KEYS[5]), 1) }
end

-- Whether the token key belongs to this grant. Restarts the expiry of that key in any case.
local function is_under_this_grant()
  local keep = token_keep(lease)
  local tokens = redis.call('GETEX', KEYS[4], 'PX', keep)
  if tokens then return string.match(tokens, '^%d+') == ARGV[3] end
  redis.call('SET', KEYS[4], ARGV[3] .. ' ' .. ARGV[4], 'PX', keep)
  return true
end

if kind == 'exclusive' then
  local mode, field = unpack(redis.call('HMGET', KEYS[1], 'mode', owner .. ':write'))
  if mode ~= 'read' then
    if not field or not is_under_this_grant() then return { 0, now } end
    redis.call('PEXPIRE', KEYS[1], lease)
    redis.call('HDEL', KEYS[3], UNCONFIRMED)
    return renewed()
  end
  -- The lock is shared now, so this owner may have downgraded after it sent this renewal. Renew it as a reader: that neither undoes the
  -- downgrade nor reports a loss.
  kind = 'shared'
end

--@include lib/tokens.lua
--@include lib/holders.lua
--@include lib/waiters.lua
--@include lib/grant.lua

local function holds_alone()
  if redis.call('HEXISTS', KEYS[1], owner .. ':write') == 1 then return true end
  return not redis.call('HGET', KEYS[1], 'mode') and redis.call('HEXISTS', KEYS[1], owner) == 1
end

if kind == 'shared' and holds_alone() then
  if not is_under_this_grant() then return { 0, now } end
  redis.call('HDEL', KEYS[1], owner .. ':write')
  redis.call('HDEL', KEYS[3], UNCONFIRMED)
  enter(owner, kind, weight, permits, lease, ARGV[3], ARGV[4])
  grant('', 0)
  redis.call(publish, KEYS[5], '1')
  return renewed()
end

if not holds(owner, kind) then return { 0, now } end
local tokens = redis.call('HGET', holders_key, owner)
if tokens and string.match(tokens, '^%d+') ~= ARGV[3] then return { 0, now } end
enter(owner, kind, weight, permits, lease, ARGV[3], ARGV[4])
return renewed()
