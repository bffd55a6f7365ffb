-- inspect.lua: the owners that hold the lock and those that wait for it. Changes nothing.
--
-- KEYS  1 lock  2 queue  3 notes  4 token  5 channel
-- ARGV
-- Reply  {mode or '', now, remaining, last token or '', number of holders, holders ..., waiting owners ...}

--@include lib/common.lua
--@include lib/holders.lua
--@include lib/waiters.lua

local found = type_of_lock()
local refused = refusal(found == 'string' and type_of_permits() == 'zset' and 'permits' or 'lock')
if refused then return redis.error_reply(refused) end

local mode, inside, remaining = '', {}, 0
if found ~= 'none' then inside, remaining = holders() end
if found == 'hash' then mode = MODES[redis.call('HGET', KEYS[1], 'mode')] or 'exclusive'
elseif #inside > 0 then mode = 'permits' end
local tokens = redis.call('GET', KEYS[4])
local last = tokens and string.match(tokens, '%d+$') or ''
local reply = { mode, now, remaining, last, 0 }
for _, owner in ipairs(inside) do
  -- A reader whose lease has expired stays in the hash until another owner needs its room.
  if mode ~= 'shared' or redis.call('EXISTS', reader_key(owner, 1)) == 1 then
    reply[#reply + 1] = owner
    reply[5] = reply[5] + 1
  end
end
for _, owner in ipairs(redis.call('ZRANGE', KEYS[2], 0, -1)) do
  -- A waiter that has crashed stays in the queue until its turn comes.
  if waiter_of(owner) then reply[#reply + 1] = owner end
end
return reply
