import { setTimeout as pause } from 'node:timers/promises';
import { afterEach, expect, it } from '@jest/globals';
import { zookeeperStore } from 'nestjs-distributed-lock/zookeeper';
import { TcpProxy, type Link } from '#tcp-proxy';
import { until } from '#until';
import { startZookeeperCluster } from '#zookeeper-server';
import type { Member } from '../../../tools/own-cluster/index.mjs';
import { closeServices, openServiceOn, untilAborted } from '../../support/lock-services.js';
import { describeWith } from '../support/describe-with.js';
import { ZookeeperHand } from './support/zookeeper-hand.js';
import { ownServer } from '../../support/own-server.js';

const SESSION_MS = 12_000;
const TEST_MS = 90_000;

describeWith('zookeeper')('a service whose server hears the leader late', () => {
  // Sessions end at whole ticks, and a follower waits for its leader for longer than anything is held here.
  const cluster = ownServer(() =>
    startZookeeperCluster(3, { settings: { tickTime: 200, initLimit: 30, syncLimit: 60 } }),
  );
  let proxy: TcpProxy;
  let hand: ZookeeperHand;
  afterEach(async () => {
    cluster.links.mend();
    await closeServices();
    await hand.close();
    await proxy.close();
  }, TEST_MS);

  it(
    'stops believing in its lock before its session ends, when its server was told late what the leader says, and cut off then',
    async () => {
      const leader = await cluster.leader();
      const follower = cluster.members.find((member) => member !== leader) as Member;
      hand = new ZookeeperHand(leader.port);
      proxy = await TcpProxy.before(follower.port, { protocol: 'any', keepsCommands: false });
      const store = zookeeperStore(`127.0.0.1:${proxy.port}`, { commandTimeoutMs: SESSION_MS / 3 });
      const service = openServiceOn(store, { watchdogTimeoutMs: SESSION_MS });
      const lock = await service.acquire('k');
      const [session] = (await hand.children('/nest-lock/s')) as [string];
      const believed = untilAborted(lock.signal).then(() => performance.now());
      // From one keep-alive on: those of more than a quarter of the session are answered together, as late as may be.
      const { requests } = proxy.open[0] as Link;
      await new Promise<void>((resolve) => {
        requests.edit = (chunk) => {
          if (!chunk.includes(session)) return chunk;
          cluster.links.hold(leader.id, follower.id);
          resolve();
          return chunk;
        };
      });
      await pause(SESSION_MS * 0.313);
      cluster.links.mute(follower.id, leader.id);
      cluster.links.deliver(leader.id, follower.id);
      await pause(100);
      cluster.links.isolate(follower.id);
      const presence = hand.paths.presenceOf(session);
      await until(async () => (await hand.statOf(presence)) === undefined, TEST_MS);
      const endedAt = performance.now();
      expect(await believed).toBeLessThan(endedAt);
    },
    TEST_MS,
  );
});
