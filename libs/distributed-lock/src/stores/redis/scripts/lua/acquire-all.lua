-- acquire-all.lua: takes several locks at once, or none of them; for keys that nobody holds and nobody waits for.
--
-- KEYS  1 lock  2 queue  3 meta  4 token  5 channel, and the same for each further lock
-- ARGV  1 notAfter  2 min_token  3 owner  4 lease  5 tokens  6 kind, and the last four for each further lock
-- Reply  {0, now}                               too late: nothing was done
--        {1, now, first token, last token ...}  granted: two numbers for each lock
--        {2, now, i}                            the lock of this number is in use: nothing was done

local min_token = tonumber(ARGV[2])

--@include lib/time.lua
--@include lib/numbers.lua
--@include lib/tokens.lua

if now > tonumber(ARGV[1]) then return { 0, now } end
-- What these owners have already was taken by a copy of this request whose answer was lost.
for i = 1, #KEYS, 5 do
  local arg = 3 + (i - 1) / 5 * 4
  local field = ARGV[arg + 3] == 'exclusive' and ARGV[arg] .. ':write' or ARGV[arg]
  if redis.call('EXISTS', KEYS[i], KEYS[i + 1], KEYS[i + 2]) > 0 and redis.pcall('HEXISTS', KEYS[i], field) ~= 1 then
    return { 2, now, (i + 4) / 5 }
  end
end

-- All that may fail comes before the first lock: none is taken alone.
local reply = { 1, now }
for i = 1, #KEYS, 5 do
  local arg = 4 + (i - 1) / 5 * 4
  local first, last = take_tokens(tonumber(ARGV[arg + 1]), tonumber(ARGV[arg]), i)
  reply[#reply + 1] = first
  reply[#reply + 1] = last
end
for i = 1, #KEYS, 5 do
  local arg = 3 + (i - 1) / 5 * 4
  local owner, lease = ARGV[arg], tonumber(ARGV[arg + 1])
  if ARGV[arg + 3] == 'exclusive' then redis.call('HSET', KEYS[i], 'mode', 'write', owner .. ':write', 1)
  else redis.call('HSET', KEYS[i], owner, 1) end
  redis.call('PEXPIRE', KEYS[i], lease)
end
return reply
