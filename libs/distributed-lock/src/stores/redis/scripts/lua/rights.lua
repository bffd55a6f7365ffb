-- rights.lua: tries commands that do nothing, to find out which of them this user may not run. Changes nothing.
--
-- KEYS
-- ARGV  1 probes
-- Reply  {error or '' of each probe ...}

local answers = {}
for i, words in ipairs(cjson.decode(ARGV[1])) do
  local reply = redis.pcall(unpack(words))
  answers[i] = type(reply) == 'table' and reply.err or ''
end
return answers
