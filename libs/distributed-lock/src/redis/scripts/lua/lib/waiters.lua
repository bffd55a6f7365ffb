-- waiters.lua: shared by acquire, release, renew, force and inspect; not a script of its own. The owners in our queue: their notes, and how
-- they are notified. Expects KEYS 2 queue 3 notes, and common.lua.
--
-- The queue is a sorted set owner -> ticket. The hash of notes has one note for each owner in the queue, and up to three marks: UNCONFIRMED
-- (lib/common.lua), and two that give foreign clients their turn (lib/foreign-clients.lua).
--
-- A note is the options of the owner's acquire, with live_until and min_token, as JSON. A plain waiter asks for one lock by tokens that are
-- not shared, and is subscribed on a server that is no cluster. Its note has fields of a fixed length instead, so that release.lua need not
-- parse JSON: live_until (13 digits), min_token (16), initial_lease (9), tokens (9), and the nonce, as long as it is.

local function note_of(options, min_token, is_plain)
  local live_until = now + options.wait
  if is_plain and options.subscribed and not options.cluster then
    return string.format('%013.0f%016.0f%09.0f%09.0f', live_until, min_token, options.initial_lease, options.tokens) .. options.nonce
  end
  options.live_until, options.min_token = live_until, text(min_token)
  return cjson.encode(options)
end

-- Returns nothing for a note that is JSON.
local function plain_waiter(note)
  if not string.find(note, '^%d') then return nil end
  return {
    live_until = tonumber(string.sub(note, 1, 13)), min_token = tonumber(string.sub(note, 14, 29)),
    initial_lease = tonumber(string.sub(note, 30, 38)), tokens = tonumber(string.sub(note, 39, 47)), nonce = string.sub(note, 48),
    kind = 'lock', subscribed = true,
  }
end

-- Returns nothing for a waiter that has not rechecked for so long that it has left or crashed.
local function waiter_of(owner)
  local note = redis.call('HGET', KEYS[3], owner) or ''
  local is_entry, waiter = true, plain_waiter(note)
  if not waiter then is_entry, waiter = pcall(cjson.decode, note) end
  return is_entry and waiter.live_until >= now and waiter or nil
end

-- The channel on which the owner's client listens, for all its owners.
local function notification_channel(owner)
  return 'nest_lock_notify:' .. (string.match(owner, '^(.*):%d+$') or owner)
end

-- The notification of its grant for a waiter that is still in the queue.
local function granted_message(owner, waiter, first, last)
  local lease, waiting = waiter.initial_lease, redis.call('ZCARD', KEYS[2]) - 1
  return 'granted ' .. owner .. ' ' .. text(first) .. ' ' .. text(last) .. ' ' .. text(now) .. ' ' .. lease .. ' ' .. waiting .. ' ' .. waiter.nonce
end
