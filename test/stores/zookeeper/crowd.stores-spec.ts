import { expect, it } from '@jest/globals';
import { describeWith } from '../support/describe-with.js';
import { ownZookeeper } from './support/own-zookeeper.js';

const CLIENTS = 16;
const RUN_MS = 6000;

describeWith('zookeeper')('sixteen clients on one key', () => {
  const zookeeper = ownZookeeper();

  it('are served in turn: nobody starves, and no two hold at once', async () => {
    const services = await Promise.all(Array.from({ length: CLIENTS }, () => zookeeper.openProxied()));
    const counts = services.map(() => 0);
    const tokens: number[] = [];
    let inside = 0;
    const endAt = performance.now() + RUN_MS;
    await Promise.all(
      services.map(async (service, i) => {
        while (performance.now() < endAt) {
          await service.withLock(zookeeper.key, { waitMs: 20_000, fair: true }, ({ fencingToken }) => {
            expect(++inside).toBe(1);
            tokens.push(fencingToken);
            counts[i]! += 1;
            inside -= 1;
          });
        }
      }),
    );
    expect(tokens).toEqual([...tokens].sort((a, b) => a - b));
    const sum = counts.reduce((a, b) => a + b, 0);
    const jain = sum ** 2 / (CLIENTS * counts.reduce((a, b) => a + b ** 2, 0));
    expect(sum).toBeGreaterThan(4 * CLIENTS);
    expect(Math.min(...counts)).toBeGreaterThan(0);
    expect(jain).toBeGreaterThanOrEqual(0.95);
  }, 60_000);
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
