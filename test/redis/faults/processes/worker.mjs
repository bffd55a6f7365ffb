// One process of a service, as it runs in production: the built package, a role, and a pipe to tell what happens.
import { LockService } from 'nestjs-distributed-lock';
import { redisStore } from 'nestjs-distributed-lock/redis';

const { role, url, key, ...options } = JSON.parse(process.argv[2]);
const service = new LockService({ shutdownGraceMs: 0, ...options, store: redisStore(url) });

const say = (what, more = {}) => process.stdout.write(`${JSON.stringify({ what, ...more })}\n`);

const roles = {
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
