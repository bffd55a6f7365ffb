// One process of a service, as it runs in production: the built package, a role, and a pipe to tell what happens.
import { Redis } from 'ioredis';
import { LockService } from 'nestjs-distributed-lock';
import { redisStore } from 'nestjs-distributed-lock/redis';

const { role, url, key, callers = 1, turns = 0, ...options } = JSON.parse(process.argv[2]);
const service = new LockService({ shutdownGraceMs: 0, ...options, store: redisStore(url) });
const redis = role === 'close' ? undefined : new Redis(url);

/** Keeps a writer with an older token out, as a resource that checks fencing tokens does. */
const GUARDED_WRITE = `
  if tonumber(ARGV[1]) < tonumber(redis.call('GET', KEYS[1]) or 0) then return 0 end
  redis.call('SET', KEYS[1], ARGV[1])
  return 1`;

const say = (what, more = {}) => process.stdout.write(`${JSON.stringify({ what, ...more })}\n`);
const write = async ({ fencingToken }) =>
  (await redis.eval(GUARDED_WRITE, 1, `${key}:register`, fencingToken)) === 1;

const roles = {
  /** Holds until it is stopped. */
  async hold() {
    const { fencingToken } = await service.acquire(key);
    say('held', { fencingToken });
  },

  /** Waits, is served once, and stays. */
  async wait() {
    await service.withLock(key, async (lock) =>
      say('served', { fencingToken: lock.fencingToken, accepted: await write(lock) }),
    );
  },

  /** Writes under the lock until it knows that it has lost it; then writes once more, as careless code would. */
  async write() {
    const lock = await service.acquire(key);
    const { fencingToken } = lock;
    say('held', { fencingToken });
    for (let written = 0; ; written++) {
      try {
        lock.assertHeld();
      } catch (error) {
        say('knows', { from: error.code, aborted: lock.signal.aborted });
        break;
      }
      if (!(await write(lock))) {
        // It was under way when the process froze.
        say('refused');
        continue;
      }
      if (written === 5) say('writing');
    }
    say('late', { accepted: await write(lock) });
  },

  /** Many callers, each of which takes its turns until all processes together have had enough of them. */
  async crowd() {
    await redis.ping();
    await service.withLock(`${key}:warm:${process.pid}`, () => undefined);
    say('ready');
    while ((await redis.exists(`${key}:go`)) === 0);
    const served = await Promise.all(Array.from({ length: callers }, caller));
    say('done', { served });

    async function caller() {
      for (let mine = 0; ; mine++) {
        if (!(await service.withLock(key, { waitMs: Infinity }, turn))) return mine;
      }
    }
    /** Plain reads and writes: with two inside, turns get lost or the counter shows it. */
    async function turn(lock) {
      const inside = await redis.incr(`${key}:inside`);
      const done = Number(await redis.get(`${key}:done`));
      const accepted = await write(lock);
      if (inside !== 1 || !accepted) say('violation', { inside, accepted });
      if (done < turns) {
        await redis.set(`${key}:done`, done + 1);
        await redis.rpush(`${key}:order`, process.pid);
      }
      await redis.decr(`${key}:inside`);
      return done < turns;
    }
  },

  /** Exits as soon as its call has settled, without closing anything. */
  async exit() {
    await service.withLock(key, () => say('held'));
    process.exit();
  },

  /** Holds and waits until it is told to close; then nothing keeps it alive. */
  async close() {
    const failures = [];
    const failed = (error) => failures.push(error.code);
    const close = async () => {
      clearInterval(alive);
      await service.close();
      say('closed', { failures });
    };
    process.once('SIGTERM', () => void close());
    await service.acquire(key, { waitMs: 300 }).catch(failed);
    service.acquire(`${key}:other`).catch(failed);
    say('ready');
  },
};

const alive = setInterval(() => undefined, 1000);
await roles[role]();
if (role === 'crowd') process.exit();
