-- tokens-plain.lua: shared by acquire and release; not a script of its own. The short form of take_tokens in tokens.lua, for tokens that are
-- not shared with foreign clients, and a lease of half a day at most. Expects KEYS 4 token, common.lua and the local min_token.

-- `used` and `reserved` are the last tokens that the owner before has used and reserved, or nil: it gives back those between the two.
--
-- Returns the first and the last token. Returns nothing if the counter is ahead of the clock: take_tokens counts on from the counter.
local function take_plain_tokens(number, used, reserved)
  local first = (min_token < micros or min_token > micros + FARTHEST_AHEAD) and micros or min_token + 1
  local last = first + number - 1
  local block = number == 1 and text(first) or text(first) .. ' ' .. text(last)
  local before = redis.call('SET', KEYS[4], block, 'PX', TOKEN_KEEP_MS, 'GET')
  local counted = before and (tonumber(before) or string.match(before, '%d+$')) or 0
  if tonumber(counted == reserved and used or counted) >= first then
    redis.call('SET', KEYS[4], before, 'PX', TOKEN_KEEP_MS)
    return nil
  end
  return first, last
end
