import { describe, expect, it } from '@jest/globals';
import { ownRedis } from '../../support/own-redis.js';
import { eventsOf } from '../../support/events.js';
import { failureOf } from '../../support/lock-services.js';
import { until } from '#until';

const LEASE_MS = 1500;
const SERVICE = { commandTimeoutMs: 500, watchdogTimeoutMs: LEASE_MS };

/** As an unlucky piece of code would, for a time that may be over. */
function block(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, Math.max(0, ms));
}

describe('a release that nobody waits for', () => {
  const redis = ownRedis('unheard', { per: 'test' });

  // Jest fails a test in whose time a promise rejects that nobody handles, as Node would end the process.
  it('fails without ending the process, when its work stalls past the lease and throws, and Redis is gone', async () => {
    const service = redis.open(SERVICE);
    const events = eventsOf(service);
    const mishap = new Error('the work failed');
    const failure = failureOf(
      service.withLock('k', async () => {
        const startedAt = performance.now();
        await redis.server.pause();
        await until(() => performance.now() - startedAt > LEASE_MS / 3 + 50);
        // The answer to the renewal arrives during the stall, which is longer than the lease before it.
        void redis.server.resume();
        block(LEASE_MS - (performance.now() - startedAt) + 50);
        void redis.server.pause();
        throw mishap;
      }),
    );
    expect(await failure).toBe(mishap);
    await until(() => events.some(({ type }) => type === 'error'), 10_000);
    expect(events).toContainEqual(expect.objectContaining({ type: 'error', during: 'release', key: 'k' }));
  }, 20_000);
});
