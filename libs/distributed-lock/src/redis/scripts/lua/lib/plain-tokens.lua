-- plain-tokens.lua: shared by acquire and release; not a script of its own. Takes the next fencing tokens where they are not shared
-- with foreign clients and the lease is half a day at most. Expects KEYS 4 token, time.lua and the locals min_token, tokens (how many),
-- and used and reserved: the last token that the owner before has used and reserved, or nil. Sets first and last; sets first to nil
-- if the counter is ahead of the clock, and then tokens.lua has to take the tokens, because it counts on from the counter.

local first = (min_token < micros or min_token > micros + FARTHEST_AHEAD) and micros or min_token + 1
local last = first + tokens - 1
local block = tokens == 1 and text(first) or text(first) .. ' ' .. text(last)
local before = redis.call('SET', KEYS[4], block, 'PX', TOKEN_KEEP_MS, 'GET')
local counted = before and (tonumber(before) or string.match(before, '%d+$')) or 0
if tonumber(counted == reserved and used or counted) >= first then
  redis.call('SET', KEYS[4], before, 'PX', TOKEN_KEEP_MS)
  first = nil
end
