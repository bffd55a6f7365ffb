-- waiters.lua: shared by grant.lua and inspect; not a script of its own. The note of an owner in the queue.
-- Expects KEYS 3 waiter_options, and time.lua.
--
-- A note is the options of the owner's acquire, with live_until and min_token, as JSON. A plain waiter asks for one lock by tokens
-- that are not shared, and is subscribed on a server that is no cluster. Its note has fixed fields instead, so that release.lua need
-- not parse: live_until (13 digits), min_token (16), initial_lease (9), tokens (9) and the nonce.

-- Returns nothing for a waiter that has not rechecked for so long that it has left or crashed.
local function waiter_of(owner)
  local note = redis.call('HGET', KEYS[3], owner) or ''
  local is_entry, waiter = true, nil
  if string.find(note, '^%d') then
    waiter = {
      live_until = tonumber(string.sub(note, 1, 13)), min_token = string.sub(note, 14, 29), initial_lease = tonumber(string.sub(note, 30, 38)),
      tokens = tonumber(string.sub(note, 39, 47)), nonce = string.sub(note, 48), kind = 'lock', subscribed = true,
    }
  else
    is_entry, waiter = pcall(cjson.decode, note)
  end
  return is_entry and waiter.live_until >= now and waiter or nil
end
