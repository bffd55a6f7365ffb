import fc from 'fast-check';

const key = fc.constantFrom('a', 'b', 'c', 'd');
const field = fc.constantFrom('f', 'g', 'mode', 'h:write', '');
const member = fc.constantFrom('m', 'n', 'o', 'm#2', '');
const number = fc.constantFrom('0', '1', '-1', '2', '17', '1700000000123456', '1.5', '-2.25', '1e3');
const value = fc.oneof(
  number,
  fc.constantFrom('', 'x', '12 15', '\u00ff\u0000é'.slice(0, 2), 'not a number'),
);
const bound = fc.constantFrom('-inf', '+inf', '0', '1', '(1', '(1700000000123456', '1.5', 'x');
const index = fc.constantFrom('0', '1', '-1', '-2', '5', 'x');
const ms = fc.constantFrom('1000', '30000', '0', '-5', 'x');
const text = (...words: string[]) => words.map((word) => fc.constant(word));
const maybe = (...words: string[]) => fc.subarray(words, { maxLength: 1 });

/** Pieces of Lua whose result shows how values are converted. */
const LUA_TEXTS = [
  'return ARGV',
  'return { KEYS[1], 1, 2.7, -2.7, true, false, 3 }',
  'return { ok = "fine" }',
  'return { err = "MINE is wrong" }',
  'return redis.error_reply("MINE is wrong")',
  'return redis.error_reply("-MINE")',
  'return redis.status_reply("yes")',
  'return tostring(1e15) .. " " .. 12345678901234567 .. " " .. 0.1 .. " " .. 86400000 * 2 .. " " .. -0',
  'return string.format("%.0f", 1700000000123456 + 1) .. (7 % 3) .. (10 / 4) .. math.max("3", 20) .. math.min(5, "4")',
  'return tonumber(ARGV[1])',
  'return { tonumber(ARGV[1] or 0) or "none", #ARGV[1], #KEYS * 1000000 * 10000 }',
  'return redis.call("GET", KEYS[1])',
  'return redis.call("SET", KEYS[1], ARGV[1])',
  'return redis.call("SET", KEYS[1], 1e20)',
  'return redis.call("SET", KEYS[1], 0.1)',
  'return redis.call("HGETALL", KEYS[1])',
  'return redis.call("ZRANGE", KEYS[1], 0, -1, "WITHSCORES")',
  'return redis.call("TYPE", KEYS[1])',
  'return redis.call("TYPE", KEYS[1]).ok',
  'return redis.pcall("HGET", KEYS[1], "f")',
  'return redis.pcall("HGET", KEYS[1], "f").err',
  'return redis.pcall("INCRBY", KEYS[1], ARGV[1])',
  'local x = redis.pcall("INCRBY", KEYS[1], ARGV[1])\nreturn type(x) == "table" and x.err or x',
  '\nreturn redis.call("INCRBY", KEYS[1], ARGV[1])',
  '\n\nlocal function f() return redis.call("HSET", KEYS[1], "f") end\nlocal x = f()\nreturn x',
  'return redis.call("NONE")',
  'return redis.call("SUBSCRIBE", "a")',
  'return redis.call("EVAL", "return 1", 0)',
  'return redis.call()',
  'return redis.call("GET", {})',
  'return y',
  '\nz = 1',
  'local t = nil\nreturn t.x',
  'return 1 +',
  'error("mine")',
  'error({ err = "MINE own" })',
  'return { cjson.encode({ a = 1.5 }), cjson.encode({ "x", 2, true }), cjson.encode("a/b\\"\\n"), cjson.encode(1e15) }',
  'local x = cjson.decode(\'{"a":[1,2,{"b":null}],"c":"d","e":1.25,"f":true}\')\nreturn { x.a[1], #x.a, x.a[3].b == cjson.null and 1 or 0, x.c, tostring(x.e), tostring(x.f), tostring(x.none) }',
  'local ok, why = pcall(cjson.decode, "")\nreturn ok and 1 or 0',
  'local a, b = string.match("12 15", "^(%d+) (%d+)$")\nreturn { a, b, string.find("a.b", ".", 1, true), (string.gsub("o:write", ":write$", "")) }',
  'local a, b = unpack({ "p", "q" })\nreturn { a, b, table.concat({ 1, 2.5, "x" }, " ") }',
  'local t = {}\nfor i = 1, 3 do t[#t + 1] = i * 1.5 end\nreturn { #t, t[3], select("#", 1, 2) }',
  'local n = 0\nfor i, v in ipairs({ "a", "b", nil, "c" }) do n = n + i end\nreturn n',
];

/** Words of commands, mostly well formed. */
export const plainCommand: fc.Arbitrary<readonly string[]> = fc
  .oneof(
    fc.tuple(...text('GET'), key),
    fc.tuple(...text('STRLEN'), key),
    fc.tuple(...text('SET'), key, value),
    fc.tuple(...text('SET'), key, value, fc.constant('PX'), ms),
    fc.tuple(...text('SET'), key, value, fc.constantFrom('XX', 'NX', 'GET', 'KEEPTTL', 'BAD')),
    fc.tuple(
      ...text('SET'),
      key,
      value,
      fc.constantFrom('XX', 'NX', 'PX'),
      fc.constantFrom('GET', 'KEEPTTL', '5000'),
    ),
    fc.tuple(...text('GETEX'), key),
    fc.tuple(...text('GETEX'), key, fc.constant('PX'), ms),
    fc.tuple(...text('INCRBY'), key, value),
    fc.tuple(...text('EXISTS'), key, key),
    fc.tuple(...text('DEL'), key, key),
    fc.tuple(...text('TYPE'), key),
    fc.tuple(...text('PTTL'), key),
    fc.tuple(...text('TTL'), key),
    fc.tuple(...text('PEXPIRE'), key, ms),
    fc.tuple(...text('HSET'), key, field, value),
    fc.tuple(...text('HSET'), key, field, value, field, value),
    fc.tuple(...text('HSET'), key, field, value, field),
    fc.tuple(...text('HGET'), key, field),
    fc.tuple(...text('HMGET'), key, field, field),
    fc.tuple(...text('HGETALL'), key),
    fc.tuple(...text('HDEL'), key, field, field),
    fc.tuple(...text('HKEYS'), key),
    fc.tuple(...text('HLEN'), key),
    fc.tuple(...text('HEXISTS'), key, field),
    fc.tuple(...text('HINCRBY'), key, field, value),
    fc.tuple(...text('ZADD'), key, number, member),
    fc.tuple(...text('ZADD'), key, value, member, number, member),
    fc.tuple(...text('ZADD'), key, fc.constantFrom('XX', 'NX'), number, member),
    fc.tuple(...text('ZREM'), key, member, member),
    fc.tuple(...text('ZSCORE'), key, member),
    fc.tuple(...text('ZCARD'), key),
    fc
      .tuple(fc.tuple(...text('ZRANGE'), key, index, index), maybe('WITHSCORES', 'BAD'))
      .map((it) => it.flat()),
    fc
      .tuple(fc.tuple(...text('ZRANGEBYSCORE'), key, bound, bound), maybe('WITHSCORES'))
      .map((it) => it.flat()),
    fc.tuple(...text('ZRANGEBYSCORE'), key, bound, bound, fc.constant('LIMIT'), index, index),
    fc.tuple(...text('ZREMRANGEBYSCORE'), key, bound, bound),
    fc.tuple(...text('SUBSCRIBE'), key),
    fc.tuple(...text('SUBSCRIBE'), key, key),
    fc.tuple(...text('UNSUBSCRIBE'), key),
    fc.tuple(...text('PUBLISH'), key, value),
    fc.tuple(...text('PUBSUB', 'NUMSUB'), key, key),
    fc.tuple(...text('PING')),
    fc.tuple(...text('ECHO'), value),
    fc.tuple(...text('HELLO'), fc.constantFrom('2', '3', '4')),
    fc.tuple(...text('SELECT'), fc.constantFrom('0', '0', '99')),
    fc.tuple(...text('CLIENT', 'SETINFO', 'LIB-NAME', 'x')),
    fc.tuple(...text('CLIENT', 'SETNAME', 'x')),
    fc.tuple(...text('WAIT', '0', '0')),
    fc.tuple(...text('AUTH', 'x')),
    fc.constantFrom(
      ['GET'],
      ['NONE', 'x'],
      ['SET', 'a'],
      ['EVAL', 'return 1'],
      ['EVAL', 'x', '0'],
      ['EVALSHA', 'ab', '0'],
    ),
    fc.tuple(fc.constant('EVAL'), fc.constantFrom(...LUA_TEXTS), fc.constant('2'), key, key, value, value),
  )
  .map((words) => words.map(String));
