-- attach.lua: gives the lock of a detached owner to this owner, under the same fencing token.
--
-- KEYS  1 lock  2 queue  3 notes  4 token  5 channel
-- ARGV  1 owner  2 from  3 token  4 lease  5 notAfter  6 options
-- Options  kind, weight, permits, cluster, publish: JSON
-- Reply  {0, now}                         too late: it came after its notAfter, so nothing was done
--        {1, now, token, token, waiting}  attached, now or by an earlier copy of this request
--        {3, now, '', 0}                  the detached owner does not hold the lock under this token
--
-- from is the placeholder that release.lua has left. A lock has been passed on as soon as its owner has another name, so a second client
-- that attaches finds nothing.

local owner, from, token, lease, options = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), cjson.decode(ARGV[6])
local kind, weight, permits, publish = options.kind, options.weight, options.permits, options.publish

--@include lib/common.lua

if now > tonumber(ARGV[5]) then return { 0, now } end

--@include lib/holders.lua
--@include lib/foreign-clients.lua

-- Readers and permits whose lease has expired stay until another owner needs their place. Of these holders, which may be several, key 4
-- has the newest token only. If Redis has evicted that key, the placeholder is proof enough.
local function is_detached()
  if not holds(from, kind) then return false end
  if kind == 'shared' then return redis.call('EXISTS', reader_key(from, 1)) == 1 end
  if kind == 'permits' then return tonumber(redis.call('ZSCORE', permits_key, from)) > now end
  local tokens = redis.call('GET', KEYS[4])
  return not tokens or string.match(tokens, '%d+$') == token
end

if not holds(owner, kind) then
  if not is_detached() then return { 3, now, '', 0 } end
  leave(from, kind, weight)
end
enter(owner, kind, weight, permits, lease, token, token)
if is_alone(kind) then redis.call('SET', KEYS[4], token, 'PX', token_keep(lease)) end
return { 1, now, tonumber(token), tonumber(token), redis.call('ZCARD', KEYS[2]) + math.min(listeners(KEYS[5]), 1) }
