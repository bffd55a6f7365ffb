import { beforeEach, describe, expect, it } from '@jest/globals';
import { ManualClock } from '../../../testing/manual-clock.js';
import { systemChance } from '../../../time/chance.js';
import { ServerRing, type Resolve } from './server-ring.js';

const RESOLVE_MS = 1000;
const PORT = 2181;

describe('the servers of an ensemble', () => {
  let clock: ManualClock;
  const ringOf = (hosts: readonly string[], resolve: Resolve): ServerRing => {
    const servers = hosts.map((host) => ({ host, port: PORT }));
    return new ServerRing({ clock, chance: systemChance, servers, resolve, resolveMs: RESOLVE_MS });
  };
  beforeEach(() => {
    clock = new ManualClock();
  });

  it('are tried at all addresses of their names, which are resolved in each round', async () => {
    let round = 0;
    const ring = ringOf(['zk', '10.0.0.9'], () => Promise.resolve([`10.0.${round}.1`, `10.0.${round}.2`]));
    for (; round < 2; round++) {
      const tried = [await ring.next(), await ring.next(), await ring.next()];
      expect(tried.map(({ address, host }) => address ?? host).sort()).toEqual(
        ['10.0.0.9', `10.0.${round}.1`, `10.0.${round}.2`].sort(),
      );
      expect(tried.at(-1)).toEqual({ host: '10.0.0.9', port: PORT });
    }
  });

  it('are left to the connection when their name is not resolved, or not in time', async () => {
    const refused = ringOf(['zk'], () => Promise.reject(new Error('ENOTFOUND')));
    expect(await refused.next()).toEqual({ host: 'zk', port: PORT });
    const silent = ringOf(['zk'], () => new Promise(() => undefined)).next();
    await clock.advance(RESOLVE_MS);
    expect(await silent).toEqual({ host: 'zk', port: PORT });
    expect(clock.pendingTimers).toBe(0);
  });
});
