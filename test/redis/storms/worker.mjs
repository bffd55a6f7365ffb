// One process of a service, as it runs in production: the built package, a role, and a pipe to tell what happens.
import { Redis } from 'ioredis';
import { LockService } from 'nestjs-distributed-lock';
import { redisStore } from 'nestjs-distributed-lock/redis';

const { role, url, key, callers = [], turns = 0, permits, watchdogTimeoutMs } = JSON.parse(process.argv[2]);
const service = new LockService({ shutdownGraceMs: 0, watchdogTimeoutMs, store: redisStore(url) });
const redis = new Redis(url);
const waitMs = Infinity;

const say = (what, more = {}) => process.stdout.write(`${JSON.stringify({ what, ...more })}\n`);
const pick = (count) => Math.floor(Math.random() * count);

/** Who is inside is counted by kind, in one step with the check that they may be there together. */
const ENTER = `
  local time = redis.call('TIME')
  local now = math.floor(time[1] * 1000 + time[2] / 1000)
  local inside = redis.call('HINCRBY', KEYS[1], ARGV[1], ARGV[2])
  local readers = tonumber(redis.call('HGET', KEYS[1], 'readers') or 0)
  local writers = tonumber(redis.call('HGET', KEYS[1], 'writers') or 0)
  local permits = tonumber(redis.call('HGET', KEYS[1], 'permits') or 0)
  if permits > 1 then redis.call('SET', KEYS[2], now, 'NX') end
  local most = tonumber(redis.call('HGET', KEYS[1], 'most ' .. ARGV[1]) or 0)
  redis.call('HSET', KEYS[1], 'most ' .. ARGV[1], math.max(inside, most))
  return writers > 1 or writers == 1 and readers > 0 or permits > tonumber(ARGV[3])`;

async function inside(kind, weight) {
  const isWrong = await redis.eval(ENTER, 2, `${key}:inside`, `${key}:several`, kind, weight, permits ?? 0);
  if (isWrong) say('violation', { kind });
  const done = await redis.incr(`${key}:done`);
  await redis.hincrby(`${key}:inside`, kind, -weight);
  return done < turns;
}

/** Each caller takes its turns until all processes together have had enough of them. */
async function takeTurns(turnOf) {
  await redis.ping();
  await service.withLock(`${key}:warm:${process.pid}`, () => undefined);
  say('ready');
  while ((await redis.exists(`${key}:go`)) === 0);
  const served = await Promise.all(
    callers.map(async (caller) => {
      for (let mine = 1; ; mine++) if (!(await turnOf(caller))) return mine;
    }),
  );
  say('done', { served });
}

const roles = {
  /** A caller is 'readers' or 'writers'. */
  storm: () =>
    takeTurns((kind) =>
      service.withLock(key, { mode: kind === 'readers' ? 'shared' : 'exclusive', waitMs }, () =>
        inside(kind, 1),
      ),
    ),

  /** A caller is the weight that it takes. */
  permits: () =>
    takeTurns((weight) =>
      service.withLock(key, { permits, weight, waitMs }, () => inside('permits', weight)),
    ),

  /** A caller is the number of accounts; with two inside one of them, money is made or lost. */
  transfers: () =>
    takeTurns(async (accounts) => {
      const from = pick(accounts);
      const to = (from + 1 + pick(accounts - 1)) % accounts;
      const [source, target] = [from, to].map((account) => `${key}:account:${account}`);
      return service.withLock(
        [source, target].map((name) => `lock:${name}`),
        { waitMs },
        async () => {
          const [here, there] = (await redis.mget(source, target)).map(Number);
          const amount = pick(20);
          await redis.mset(source, here - amount, target, there + amount);
          return (await redis.incr(`${key}:done`)) < turns;
        },
      );
    }),

  /** Holds until it is killed. */
  async hold() {
    await service.acquire(key, { permits, weight: callers[0] });
    say('held');
  },
};

const alive = setInterval(() => undefined, 1000);
await roles[role]();
if (role !== 'hold') {
  await service.close();
  await redis.quit();
  clearInterval(alive);
}
