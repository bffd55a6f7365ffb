-- time.lua: shared by all scripts; not a script of its own. The server's clock, and for how long keys are kept.

local KEEP_MS = 10000 -- the queue and its hash of waiter options outlive the last recheck by this
local TOKEN_KEEP_MS = '86400000' -- tokens fall back on the clock after this; longer leases keep them longer
local FARTHEST_AHEAD = 86400000000 -- micros; a token that is further ahead of the clock was not made by it

local time = redis.call('TIME')
local micros = time[1] * 1000000 + time[2]
local now = (micros - micros % 1000) / 1000
