// One process of a service whose locks live on several nodes: the built package, a role, and a pipe to tell what happens.
import { Redis } from 'ioredis';
import { LockService } from 'nestjs-distributed-lock';
import { quorumStore } from 'nestjs-distributed-lock/quorum';
import { redisStore } from 'nestjs-distributed-lock/redis';

const {
  role,
  urls,
  shop,
  key,
  callers = 1,
  commandTimeoutMs = 1000,
  ...options
} = JSON.parse(process.argv[2]);
const say = (what, more = {}) => process.stdout.write(`${JSON.stringify({ what, ...more })}\n`);
const onNode = ({ node, isUp }) => say(isUp ? 'up' : 'down', { node });
const nodes = urls.map((url) => redisStore(url, { commandTimeoutMs }));
const service = new LockService({ shutdownGraceMs: 0, ...options, store: quorumStore(nodes, { onNode }) });
const redis = new Redis(shop);

/** Keeps a writer with an older token out, as a resource that checks fencing tokens does. */
const GUARDED_WRITE = `
  if tonumber(ARGV[1]) < tonumber(redis.call('GET', KEYS[1]) or 0) then return 0 end
  redis.call('SET', KEYS[1], ARGV[1])
  return 1`;

const roles = {
  /** Holds until it is stopped, or has lost it. */
  async hold() {
    const lock = await service.acquire(key);
    lock.signal.addEventListener('abort', () => say('lost'));
    say('held', { fencingToken: lock.fencingToken });
  },

  /** Callers that sell until nothing is left: plain reads and writes, so that two inside would show. */
  async sell() {
    await redis.ping();
    say('ready');
    while ((await redis.exists(`${key}:go`)) === 0);
    const sold = await Promise.all(Array.from({ length: callers }, caller));
    say('done', { sold: sold.reduce((total, mine) => total + mine, 0), longestMs });
    await service.close();
    redis.disconnect();
    clearInterval(alive);
  },
};

let longestMs = 0;

async function caller() {
  for (let mine = 0; ; mine++) {
    const askedAt = performance.now();
    const isSold = await service.withLock(key, { waitMs: Infinity }, sellOne);
    longestMs = Math.max(longestMs, performance.now() - askedAt);
    if (!isSold) return mine;
  }
}

async function sellOne({ fencingToken }) {
  const inside = await redis.incr(`${key}:inside`);
  const sold = Number(await redis.get(`${key}:sold`));
  const accepted = (await redis.eval(GUARDED_WRITE, 1, `${key}:fence`, fencingToken)) === 1;
  if (inside !== 1 || !accepted) say('violation', { inside, accepted });
  const isSold = sold < Number(await redis.get(`${key}:stock`));
  if (isSold) {
    await redis.set(`${key}:sold`, sold + 1);
    await redis.rpush(`${key}:order`, process.pid);
  }
  await redis.decr(`${key}:inside`);
  return isSold;
}

const alive = setInterval(() => undefined, 1000);
await roles[role]();
