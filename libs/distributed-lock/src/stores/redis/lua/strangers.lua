-- strangers.lua: shared by all that free or grant; not a script of its own. Expects KEYS 5 channel and the local publish.

-- How many strangers listen for the lock to come free.
local function listeners()
  local count = publish == 'SPUBLISH' and 'SHARDNUMSUB' or 'NUMSUB'
  return redis.call('PUBSUB', count, KEYS[5])[2]
end
