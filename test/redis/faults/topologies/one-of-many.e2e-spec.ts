import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { startRedisCluster, startSentinelSet, type RedisCluster, type SentinelSet } from '#redis-topologies';
import { closeServices, failureOf, openService } from '../../../support/lock-services.js';
import { LIBRARIES, targetOf } from '../../../support/redis-library.js';

/** Enough that each server of a cluster has none of some of them. */
const KEYS = ['a', 'b', 'c', 'd', 'e', 'f'];

describe.each(LIBRARIES)('the URL of one server, by %s, where several belong together', (library) => {
  let set: SentinelSet;
  let cluster: RedisCluster;
  beforeAll(async () => {
    [set, cluster] = await Promise.all([startSentinelSet(), startRedisCluster()]);
  }, 60_000);
  afterEach(closeServices);
  afterAll(() => Promise.all([set.stop(), cluster.stop()]));

  const failuresAt = async (port: number): Promise<string> => {
    const service = openService(targetOf(library, `redis://127.0.0.1:${port}`), { waitMs: 1500 });
    return (await Promise.all(KEYS.map((key) => failureOf(service.acquire(key))))).map(String).join('\n');
  };

  it('is told of with what to give instead: a Sentinel', async () => {
    expect(await failuresAt(set.sentinelPort)).toContain('Is it a Sentinel? Give { sentinels');
  });

  it('is told of with what to give instead: a replica', async () => {
    const master = await set.masterPort();
    const replica = set.servers.find(({ port }) => port !== master);
    expect(await failuresAt(replica?.port as number)).toContain(
      'Give the address of the master, or Sentinels',
    );
  });

  it('is told of with what to give instead: a node of a cluster', async () => {
    expect(await failuresAt(cluster.nodes[0]?.port as number)).toContain(
      'It is one server of a cluster: give',
    );
  });
});
