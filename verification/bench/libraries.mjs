// The Redis store by node-redis beside ioredis, in turns on one server: locks per second, and the client's CPU for each lock.
import { LockService } from 'nestjs-distributed-lock';
import { redisStore } from 'nestjs-distributed-lock/redis';
import { createClient } from 'redis';
import { startRedisServer } from '#redis-server';

const TURN_MS = 1000;
const TURNS = 8;
const CALLERS = [1, 64, 1000];

const middle = (numbers) => numbers.sort((a, b) => a - b)[numbers.length >> 1];

/** Each caller takes a key of its own and gives it back, until the turn is over. */
async function turn(locks, callers) {
  const cpu = process.cpuUsage();
  const startedAt = performance.now();
  let taken = 0;
  const call = async (_, i) => {
    for (; performance.now() - startedAt < TURN_MS; taken++)
      await (await locks.acquire(`key:${i}`)).release();
  };
  await Promise.all(Array.from({ length: callers }, call));
  const { user, system } = process.cpuUsage(cpu);
  return { perSecond: (1000 * taken) / (performance.now() - startedAt), cpuUs: (user + system) / taken };
}

const redis = await startRedisServer();
const open = (target) => new LockService({ store: redisStore(target), application: false });
const [ioredis, nodeRedis] = [open(redis.url), open(createClient({ url: redis.url }))];
try {
  for (const callers of CALLERS) {
    for (const locks of [ioredis, nodeRedis]) await turn(locks, callers);
    const turns = [];
    for (let i = 0; i < TURNS; i++)
      turns.push([await turn(ioredis, callers), await turn(nodeRedis, callers)]);
    const of = (library, what) => Math.round(middle(turns.map((pair) => pair[library][what])));
    const share = middle(turns.map(([first, second]) => second.perSecond / first.perSecond));
    console.log(
      `${callers} callers: ioredis ${of(0, 'perSecond')} locks/s, ${of(0, 'cpuUs')} µs of CPU each; node-redis ${of(1, 'perSecond')} locks/s, ${of(1, 'cpuUs')} µs; share ${share.toFixed(2)}`,
    );
  }
} finally {
  await Promise.all([ioredis.close(), nodeRedis.close()]);
  await redis.stop();
}
