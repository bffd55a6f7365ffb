import { expect, it } from '@jest/globals';
import type { CallOptions, LockService } from 'nestjs-distributed-lock';

/** Where they are granted in the order of asking, a few show what chance shows only in many. */
const CROWD = { fair: { clients: 8, turns: 6 }, unfair: { clients: 16, turns: 8 } };

/** Processes that ask for one key as soon as they have released it. */
export function describeCrowd(open: () => LockService, key: () => string, options: CallOptions): void {
  it('are served in turn: nobody starves, and no two hold at once', async () => {
    const { clients, turns } = CROWD[options.fair ? 'fair' : 'unfair'];
    const services = Array.from({ length: clients }, open);
    // Connected before the first turn: a client that joins late has fewer.
    await Promise.all(services.map((service) => service.inspect(key())));
    const counts = services.map(() => 0);
    const tokens: number[] = [];
    let inside = 0;
    const ask = async (service: LockService, i: number) => {
      while (tokens.length < turns * clients) {
        await service.withLock(key(), { waitMs: Infinity, ...options }, ({ fencingToken }) => {
          expect(++inside).toBe(1);
          tokens.push(fencingToken);
          counts[i]! += 1;
          inside -= 1;
        });
      }
    };
    await Promise.all(services.map(ask));
    expect(tokens).toEqual([...tokens].sort((a, b) => a - b));
    expect(Math.min(...counts)).toBeGreaterThan(0);
    const squares = counts.reduce((sum, count) => sum + count ** 2, 0);
    // Jain's index of fairness: 1 when all have the same.
    expect(tokens.length ** 2 / (clients * squares)).toBeGreaterThan(0.95);
  }, 120_000);
}
