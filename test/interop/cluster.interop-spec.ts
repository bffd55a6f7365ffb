import { afterAll, beforeAll, beforeEach, expect, it, jest } from '@jest/globals';
import { startRedisCluster } from '#redis-topologies';
import type { Peer, Side } from './support/peer.js';
import { BOTH_WAYS, describeBesideJava, Stage } from './support/stage.js';
import { ownServer } from '../support/own-server.js';

jest.setTimeout(120_000);

const RECHECK_MS = 1000;

describeBesideJava('a lock beside Java on a cluster', () => {
  const cluster = ownServer(() => startRedisCluster(3));
  let stage: Stage;
  let peers: Record<Side, Peer>;
  let names: string[];
  let count = 0;

  beforeAll(async () => {
    // A reader of Java that is not woken sleeps until the lease that it saw is over.
    stage = new Stage({ nodes: cluster.servers.map(({ url }) => url), watchdogTimeoutMs: 9_000 });
    const [java, nest] = await Promise.all([stage.start('java'), stage.start('nest')]);
    peers = { java, nest };
  });
  beforeEach(() => {
    // Enough to have some on each node.
    names = Array.from({ length: 6 }, () => `cluster:${++count}`);
  });
  afterAll(() => stage?.close());

  it.each(BOTH_WAYS)('that %s holds is refused to %s until it is given back', async (one, other) => {
    for (const name of names) {
      await peers[one].order('lock', name);
      expect(await peers[other].order('tryLock', name)).toMatchObject({ held: false });
      await peers[one].order('unlock', name);
      expect(await peers[other].order('tryLock', name)).toMatchObject({ held: true });
      expect(await peers[other].order('unlock', name)).toMatchObject({ outcome: 'released' });
    }
  });

  /** How long after each release the other side had the lock, in ms. */
  async function handOver(
    holder: Peer,
    waiter: Peer,
    beforeRelease?: (name: string) => Promise<void>,
  ): Promise<number[]> {
    const delays: number[] = [];
    for (const name of names) {
      await holder.order('lock', name);
      const acquired = waiter.order('lock', name);
      await stage.untilListening(name);
      await beforeRelease?.(name);
      const { atMs } = await holder.order('unlock', name);
      delays.push((await acquired).atMs - atMs);
      await waiter.order('unlock', name);
      await stage.untilNobodyListens(name);
    }
    return delays;
  }

  it.each(BOTH_WAYS)(
    'that %s gives back wakes %s within milliseconds, through a sharded channel',
    async (one, other) => {
      const delays = await handOver(peers[one], peers[other]);
      // Whoever is not woken looks after a second, or when the lease is over.
      expect(Math.min(...delays)).toBeLessThan(RECHECK_MS / 10);
      expect(Math.max(...delays)).toBeLessThan(RECHECK_MS / 2);
    },
  );

  it.each(BOTH_WAYS)(
    'that %s gives back wakes %s also after all connections for messages were cut',
    async (one, other) => {
      const delays = await handOver(peers[one], peers[other], async (name) => {
        await Promise.all(stage.nodes.map((node) => node.call('CLIENT', 'KILL', 'TYPE', 'pubsub')));
        await stage.untilListening(name);
      });
      expect(Math.min(...delays)).toBeLessThan(RECHECK_MS / 4);
    },
  );

  // Redisson wakes the readers that sleep, not one that is about to sleep just then: so one of six is enough.
  it.each(BOTH_WAYS)('for readers and writers works with %s and %s as well', async (one, other) => {
    const readersDelays: number[] = [];
    for (const name of names) {
      const [read, write] = [{ kind: 'read' }, { kind: 'write' }];
      await peers[one].order('lock', name, write);
      const reader = peers[other].order('lock', name, read);
      await stage.untilListening(name, 'redisson_rwlock');
      const writerLeft = await peers[one].order('unlock', name, write);
      readersDelays.push((await reader).atMs - writerLeft.atMs);
      await stage.untilNobodyListens(name, 'redisson_rwlock');
      const writer = peers[one].order('lock', name, write);
      await stage.untilListening(name, 'redisson_rwlock');
      const readerLeft = await peers[other].order('unlock', name, read);
      expect((await writer).atMs - readerLeft.atMs).toBeLessThan(RECHECK_MS / 2);
      await peers[one].order('unlock', name, write);
    }
    expect(Math.min(...readersDelays)).toBeLessThan(RECHECK_MS / 2);
  });

  it('that a Java service gives back which was told to use no sharded channels wakes Nest all the same', async () => {
    const java = await stage.start('java', { sharded: 'OFF' });
    const delays: number[] = [];
    for (const name of names) {
      await java.order('lock', name);
      const acquired = peers.nest.order('lock', name);
      await stage.untilListening(name);
      const { atMs } = await java.order('unlock', name);
      delays.push((await acquired).atMs - atMs);
      await peers.nest.order('unlock', name);
    }
    expect(Math.max(...delays)).toBeLessThan(RECHECK_MS / 2);
  });

  it('is announced so that neither side has complained', () => {
    expect(stage.complaints).toBe('');
  });
});
