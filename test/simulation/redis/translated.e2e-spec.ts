import { createHash } from 'node:crypto';
import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import * as lua from '../../../libs/distributed-lock/src/redis/scripts/lua.generated.js';
import { redisNotedBy } from '../backends/redis/redis.js';
import { runPlan } from '../history/run-plan.js';
import { drawPlan } from '../plan/draw.js';
import { JudgedEngine } from './compare/judged-engine.js';
import { scriptStep, takeStep, type Stepped } from './compare/script-steps.js';
import { javaScriptOf } from './lua/translated/translate.js';
import { request } from './resp/request.js';
import { RedisServer } from './server/redis-server.js';
import type { ServerClient } from './server/server-client.js';

const CLIENTS = 3;

/** One server whose scripts are judged. */
class JudgedServer implements Stepped {
  micros = 0;
  readonly pinned = false;
  private readonly written: string[] = [];
  private readonly clients: ServerClient[];
  private readonly server: RedisServer;

  constructor(engine: JudgedEngine) {
    this.server = new RedisServer({
      micros: () => this.micros,
      newRunId: () => '0'.repeat(40),
      after: () => () => undefined,
      engine,
    });
    this.clients = Array.from({ length: CLIENTS }, (_, i) =>
      this.server.connect(
        (bytes) => (this.written[i] += bytes),
        () => undefined,
      ),
    );
  }

  pass(micros: number): void {
    this.micros += micros;
  }

  async send(client: number, words: readonly string[]): Promise<string> {
    this.written[client] = '';
    this.clients[client]?.receive(request(words));
    return this.written[client];
  }

  async setOutOfMemory(isOutOfMemory: boolean): Promise<void> {
    this.server.refusals.isOutOfMemory = isOutOfMemory;
  }

  async deny(command: string): Promise<void> {
    this.server.refusals.denied.add(command);
  }

  async allowAll(): Promise<void> {
    this.server.refusals.denied.clear();
  }
}

/** What both say of a script. */
function judged(source: string, ...args: readonly string[]) {
  const engine = new JudgedEngine();
  const sha = createHash('sha1').update(source).digest('hex');
  expect(engine.compile(sha, source)).toBeUndefined();
  return engine.run(sha, ['k', 'l'], args, (words) =>
    words[0] === 'LIST' ? [1, null, 'x'] : words.join(' '),
  );
}

describe('a script that was translated to JavaScript', () => {
  it('sends the same commands as in the interpreter, and gives the same reply: random steps', async () => {
    const engine = new JudgedEngine();
    const steps = fc.array(scriptStep(CLIENTS), { minLength: 10, maxLength: 60, size: 'max' });
    const property = fc.asyncProperty(steps, async (all) => {
      const server = new JudgedServer(engine);
      for (const [i, step] of all.entries()) await takeStep(server, step, i);
    });
    await expect(fc.assert(property, { numRuns: 60, includeErrorInReport: true })).resolves.toBeUndefined();
    expect(engine.runs).toBeGreaterThan(500);
  }, 60_000);

  it('sends the same commands as in the interpreter, and gives the same reply: simulated histories', async () => {
    const engine = new JudgedEngine();
    const backend = redisNotedBy(undefined, engine);
    for (let seed = 1; seed <= 8; seed++) {
      const { history } = await runPlan(drawPlan(backend, `translated ${seed}`), backend);
      expect(history.violations).toEqual([]);
    }
    expect(engine.runs).toBeGreaterThan(100);
  }, 60_000);

  it.each(
    [
      'return { 1, 2.7, -2.7, true, false, 3 }',
      'return { ARGV[1] .. 1e15, 12345678901234567 .. "", 0.1 .. "", 86400000 * 2 .. "", #ARGV[1] }',
      'return { string.format("%.0f %02x%%", 1700000000123456 + 1, 10), 7 % 3 .. "", -7 % 3 .. "", 10 / 4 .. "" }',
      'return { math.max("3", 20), math.min(5, "4"), tonumber("0x10"), tonumber("1e2"), tonumber("x") or "none", tonumber("ff", 16) }',
      'local a, b = string.match("12 15", "^(%d+) (%d+)$") return { a, b, string.find("a.b", ".", 1, true), (string.gsub("o:write", ":write$", "")) }',
      'return { string.gsub("a-b-c", "%-", "%%") }',
      'return { string.gsub("0aff", "%x%x", function(it) return string.char(tonumber(it, 16)) end) }',
      'return { string.find("ab]c^", "[%]^]+"), string.find("x", "[^x]") or "none", string.match("a1b22", "%a(%d-)b(%d*)") }',
      'return { string.sub("abcdef", -3), string.sub("abcdef", 2, -2), string.sub("abc", 4), string.sub("abc", 0, 1), string.byte("a") }',
      'local t = { 1, nil, 3, x = 4, ["y z"] = 5 } t[2] = 2 return { t[1], t[2], t[3], t.x, t["y z"], #t }',
      'local t = { 1, 2, 3 } t[3] = nil t[#t + 1] = 9 return { #t, t[3] }',
      'local n = 0 for i, v in ipairs({ "a", "b", nil, "c" }) do n = n + i end for i = 5, 1, 2 do n = n + 1 end return n',
      'local n = 0 for i = 1, 9, 3 do if i == 7 then break end n = n + i end repeat local m = n n = n + 1 until m > 8 return n',
      'local fs = {} for i = 1, 3 do fs[i] = function() i = i + 1 return i end end return { fs[1](), fs[1](), fs[2]() }',
      'local function f(a, ...) return a end return f(1)',
      'local a, b, c = (function() return 1, 2 end)() return { a, b, c or "nil" }',
      'local a, b = 1, 2 a, b = b, a return { a, b, a and b or 5, nil and 1 or false, not a, a and not nil }',
      'local x = 1 do local x = x + 1 if x == 2 then x = x + 1 elseif x == 3 then x = 9 else x = 8 end return x end',
      'return redis.call("LIST")[2] == false and { redis.call("SET", KEYS[1], 1e20, 0.1, -0) }',
      'return { cjson.encode({ a = 1.5 }), cjson.encode({ "x", 2, true }), cjson.encode("a/b\\"\\n"), cjson.encode(1e15), cjson.encode({}) }',
      'local x = cjson.decode(ARGV[2]) x.c = nil x.n = "\\200" return { x.a[1], #x.a, x.a[3].b == cjson.null and 1 or 0, cjson.encode(x) }',
      'local ok, why = pcall(cjson.decode, "") return { ok and 1 or 0, why, type(why), type(nil), type(cjson.null) }',
      'local a, b = unpack(redis.call("LIST")) return { a, b and 1 or 0, table.concat({ 1, 2.5, "x" }, " ") }',
      'return redis.error_reply("MINE is wrong")',
      'return redis.error_reply("-MINE")',
      'return redis.status_reply("yes")',
      'return { err = "MINE is wrong" }',
      '\n\nreturn redis.call("GET",\n{})',
    ].filter((it) => !it.includes('...')),
  )('gives what the interpreter gives: %s', (source) => {
    expect(() => judged(source, 'ä', '{"a":[1,2,{"b":null}],"c":"d","e":1.25,"f":true}')).not.toThrow();
  });

  it.each<[source: string, refusal: string]>([
    ['return select(1, 2)', 'line 1: select is not known'],
    ['\nreturn string.rep("a", 2)', 'line 2: string.rep is not known'],
    ['local a = 1\nlocal function f(...) return a end', 'line 2: a name is expected, and not ...'],
    ['local s = "a"\n\nreturn s:len()', 'line 3: a call is written with parentheses, and without a colon'],
    ['for k in pairs({}) do end', 'of loops over tables only those by ipairs are known'],
    ['goto over', 'line 1: goto is not known'],
    ['y = 1', 'a global cannot be set'],
    ['return 2 ^ 3', '^ is not known'],
    ['return 1 +', 'a name is expected, and not the end'],
    ['return [[a]]', 'a name is expected, and not ['],
    ['return "\\q"', 'the escape \\q is not known'],
  ])('is refused when it is loaded, if the translator does not know it: %s', (source, refusal) => {
    expect(() => javaScriptOf(source)).toThrow(refusal);
  });

  it('is an error of the server where Lua is one, and fails where a command throws', () => {
    const engine = new JudgedEngine();
    engine.compile('a', 'local t = nil\nreturn t.x');
    expect(() => engine.run('a', [], [], () => null)).toThrow('attempt to index a nil value');
    engine.compile('b', 'return redis.pcall("GET", "k")');
    const fails = () => {
      throw new Error('gone');
    };
    expect(() => engine.run('b', [], [], fails)).toThrow('A command of script b has thrown.');
  });

  it('knows all scripts of the library', () => {
    for (const source of Object.values(lua)) expect(() => javaScriptOf(source)).not.toThrow();
  });
});
