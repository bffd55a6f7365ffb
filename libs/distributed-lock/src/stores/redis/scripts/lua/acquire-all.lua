-- acquire-all.lua: acquires several locks at once if none of them has a holder or a queue, and otherwise none of them.
--
-- KEYS  1 lock  2 queue  3 waiter_options  4 token  5 channel, and the same for each further lock, with the restart guard mark at the end
-- ARGV  1 notAfter  2 min_token  3 longest  4 owner  5 lease  6 tokens  7 kind, and the last four for each further lock
-- Reply  {0, now}                               too late: after its not-after, so nothing was done
--        {1, now, first token, last token ...}  granted: two numbers for each lock
--        {2, now, i}                            the lock of this number is in use: nothing was done
--        {4, now, left}                         unready: the restart guard grants nothing for so long

local min_token = tonumber(ARGV[2])

--@include lib/time.lua

if now > tonumber(ARGV[1]) then return { 0, now } end

if #KEYS % 5 == 1 then
  local mark, longest = KEYS[#KEYS], tonumber(ARGV[3])
  --@include lib/restart-guard.lua
  if left > 0 then return { 4, now, left } end
end

--@include lib/tokens.lua

local asked = {}
for i = 1, #KEYS - 4, 5 do
  local a = 4 + (i - 1) / 5 * 4
  local owner, lease, tokens, kind = ARGV[a], tonumber(ARGV[a + 1]), tonumber(ARGV[a + 2]), ARGV[a + 3]
  local field = kind == 'exclusive' and owner .. ':write' or owner
  asked[#asked + 1] = { at = i, field = field, lease = lease, tokens = tokens, kind = kind }
  -- A lock that its owner holds already was acquired by an earlier copy of this request, whose reply was lost.
  if redis.call('EXISTS', KEYS[i], KEYS[i + 1], KEYS[i + 2]) > 0 and redis.pcall('HEXISTS', KEYS[i], field) ~= 1 then
    return { 2, now, #asked }
  end
end

-- All steps that may fail come before the first lock, so that no lock is acquired alone.
local reply = { 1, now }
for _, it in ipairs(asked) do
  local first, last = take_tokens(it.tokens, it.lease, it.at)
  reply[#reply + 1] = first
  reply[#reply + 1] = last
end
for _, it in ipairs(asked) do
  if it.kind == 'exclusive' then redis.call('HSET', KEYS[it.at], 'mode', 'write') end
  redis.call('HSET', KEYS[it.at], it.field, 1)
  redis.call('PEXPIRE', KEYS[it.at], it.lease)
end
return reply
