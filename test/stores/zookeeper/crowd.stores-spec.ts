import { expect, it } from '@jest/globals';
import { describeCrowd } from '../support/crowd.contract.js';
import { describeWith } from '../support/describe-with.js';
import { PATIENT } from '../support/patient.js';
import { ownZookeeper } from './support/own-zookeeper.js';

describeWith('zookeeper')('sixteen clients on one key', () => {
  const zookeeper = ownZookeeper();

  describeCrowd(
    () => zookeeper.open(zookeeper.server.url, PATIENT),
    () => zookeeper.key,
    { fair: true },
  );
});

describeWith('zookeeper')('a thousand locks of one client', () => {
  const zookeeper = ownZookeeper();

  it('are held and renewed together, and all come free', async () => {
    const service = await zookeeper.openProxied({}, { watchdogTimeoutMs: 9000 });
    const keys = Array.from({ length: 1000 }, (_, i) => `${zookeeper.key}:${i}`);
    const locks = await Promise.all(keys.map((key) => service.acquire(key)));
    await new Promise((resolve) => setTimeout(resolve, 10_000));
    expect(locks.filter(({ signal }) => signal.aborted)).toEqual([]);
    const other = zookeeper.open();
    expect(await other.tryAcquire(keys[500] as string)).toBeNull();
    await Promise.all(locks.map((lock) => lock.release()));
    const again = await Promise.all(keys.map((key) => other.acquire(key, { waitMs: 5000 })));
    expect(again.every(({ fencingToken }, i) => fencingToken > locks[i]!.fencingToken)).toBe(true);
  }, 60_000);
});
