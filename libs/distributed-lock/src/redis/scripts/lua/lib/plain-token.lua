-- plain-token.lua: shared by acquire and release; not a script of its own. Takes the next fencing token where tokens are not shared
-- with foreign clients and the lease is half a day at most. Expects KEYS 4 token, time.lua and the local min_token. Sets token;
-- sets it to nil if the counter is ahead of the clock, and then tokens.lua has to take the token, because it counts on from the
-- counter.

local token = (min_token < micros or min_token > micros + FARTHEST_AHEAD) and micros or min_token + 1
local counted = redis.call('SET', KEYS[4], text(token), 'PX', TOKEN_KEEP_MS, 'GET')
if counted and (tonumber(counted) or tonumber(string.match(counted, '%d+$')) or 0) >= token then
  redis.call('SET', KEYS[4], counted, 'PX', TOKEN_KEEP_MS)
  token = nil
end
