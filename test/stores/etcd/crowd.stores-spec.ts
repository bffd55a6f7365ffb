import { expect, it } from '@jest/globals';
import { describeWith } from '../support/describe-with.js';
import { ownEtcd } from './support/own-etcd.js';

const CLIENTS = 16;
const RUN_MS = 6000;

describeWith('etcd')('sixteen clients on one key', () => {
  const etcd = ownEtcd();

  it('are served in turn: nobody starves, and no two hold at once', async () => {
    const services = await Promise.all(Array.from({ length: CLIENTS }, () => etcd.openReady()));
    const counts = services.map(() => 0);
    const tokens: number[] = [];
    let inside = 0;
    const endAt = performance.now() + RUN_MS;
    await Promise.all(
      services.map(async (service, i) => {
        while (performance.now() < endAt) {
          await service.withLock(etcd.key, { waitMs: 20_000, fair: true }, ({ fencingToken }) => {
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
