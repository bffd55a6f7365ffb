-- foreign-clients.lua: shared by all that free, grant or renew; not a script of its own. Expects the local publish.

-- How many foreign_clients listen for the lock to come free. PUBLISH counts those who listen by a pattern, too, who do not wait.
local function listeners(channel)
  local count = publish == 'SPUBLISH' and 'SHARDNUMSUB' or 'NUMSUB'
  return redis.call('PUBSUB', count, channel)[2]
end
