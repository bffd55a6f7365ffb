-- next-token.lua: shared by all that grant; not a script of its own. The next fencing token, and the common case: one
-- token that is counted here alone. Expects time.lua and the local floor.

-- Larger than every token before, also when the counter was lost: then the clock, or what clients have seen, decides.
local function next_after(last)
  local seen = floor > micros + 86400000000 and 0 or floor
  return math.max(last, seen, micros - 1) + 1
end

local function count_one(token)
  local from = text(token)
  return redis.call('SET', KEYS[4], from .. ' ' .. from, 'PX', '86400000', 'GET')
end

-- For leases of half a day at most. The clock is ahead of what was counted last, nearly always.
local function take_one()
  local token = next_after(0)
  local known = count_one(token)
  local last = known and tonumber(string.match(known, ' (%d+)$')) or 0
  if last < token then return token end
  token = next_after(last)
  count_one(token)
  return token
end
