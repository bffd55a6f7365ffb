-- waiters.lua: shared by grant.lua and inspect; not a script of its own. The options of an owner in the queue.
-- Expects KEYS 3 waiter_options, and time.lua.

-- Returns nothing for a waiter that has not rechecked for so long that it has left or crashed.
local function waiter_of(owner)
  local is_entry, waiter = pcall(cjson.decode, redis.call('HGET', KEYS[3], owner) or '')
  return is_entry and waiter.live_until >= now and waiter or nil
end
