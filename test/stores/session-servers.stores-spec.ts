import { connect } from 'node:net';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { startEtcdCluster, startEtcdServer } from '#etcd-server';
import { until } from '#until';
import { startZookeeperCluster, startZookeeperServer } from '#zookeeper-server';
import type { Member, OwnCluster } from '../../tools/own-cluster/index.mjs';
import { describeWith } from './support/describe-with.js';

const START_MS = 90_000;

/** One question in the server's own protocol, and what tells that it was answered. */
const etcd = {
  title: 'etcd',
  describe: describeWith('etcd'),
  one: () => startEtcdServer({ settings: { 'quota-backend-bytes': 16_777_216 } }),
  three: () => startEtcdCluster(3),
  /** Writes, and reads what was written: only the majority can answer that. */
  async asks({ url }: Member): Promise<boolean> {
    const base64 = (text: string) => Buffer.from(text).toString('base64');
    const call = async (path: string, body: object) => {
      const signal = AbortSignal.timeout(1_000);
      const answer = await fetch(`${url}/v3/kv/${path}`, {
        method: 'POST',
        body: JSON.stringify(body),
        signal,
      });
      return answer.text();
    };
    await call('put', { key: base64('a'), value: base64('kept') });
    return (await call('range', { key: base64('a') })).includes(base64('kept'));
  },
};

const zookeeper = {
  title: 'ZooKeeper',
  describe: describeWith('zookeeper'),
  one: () => startZookeeperServer({ settings: { maxSessionTimeout: 2_000 } }),
  three: () => startZookeeperCluster(3),
  /** A new session is a write, which only the majority can make. Asks for 10 s and is told how long it lasts. */
  async asks({ port }: Member): Promise<boolean> {
    const request = Buffer.alloc(48);
    request.writeInt32BE(44);
    request.writeInt32BE(10_000, 16);
    request.writeInt32BE(16, 28);
    const reply = await new Promise<Buffer>((resolve, reject) => {
      const socket = connect(port, '127.0.0.1', () => socket.write(request));
      socket.setTimeout(1_000, () => socket.destroy(new Error('no session within 1000 ms')));
      socket.once('data', (chunk) => socket.destroy() && resolve(chunk)).once('error', reject);
      socket.once('close', () => reject(new Error('closed')));
    });
    return reply.readInt32BE(8) >= 2_000;
  },
};

for (const engine of [etcd, zookeeper]) {
  const answers = (member: Member) => engine.asks(member).catch(() => false);

  engine.describe(`the ${engine.title} server for tests`, () => {
    let server: Member;

    beforeAll(async () => {
      server = await engine.one();
    }, START_MS);
    afterAll(() => server?.stop());

    it('answers, and leads itself', async () => {
      expect(await engine.asks(server)).toBe(true);
      expect([await server.isHealthy(), await server.isLeader()]).toEqual([true, true]);
    });

    it('answers nothing while it is paused', async () => {
      await server.pause();
      expect(await answers(server)).toBe(false);
      await server.resume();
      expect(await engine.asks(server)).toBe(true);
    });

    it('serves clients again when a restart resolves', async () => {
      await server.kill();
      expect(await answers(server)).toBe(false);
      await server.restart();
      expect(await engine.asks(server)).toBe(true);
    });

    it('can be killed while it is paused, and be stopped twice', async () => {
      await server.pause();
      await server.stop();
      await server.stop();
      expect(await answers(server)).toBe(false);
    });
  });

  engine.describe(`three ${engine.title} servers for tests`, () => {
    let cluster: OwnCluster;

    beforeAll(async () => {
      cluster = await engine.three();
    }, START_MS);
    afterAll(() => cluster?.stop());

    const othersThan = (member: Member) => cluster.members.filter((other) => other !== member);
    /** Resolves when one of the others leads. */
    const untilReplaced = (leader: Member) =>
      until(async () => {
        const leads = othersThan(leader).map((other) => other.isLeader().catch(() => false));
        return (await Promise.all(leads)).includes(true);
      });

    it('all serve clients, and one leads', async () => {
      expect(await Promise.all(cluster.members.map(answers))).toEqual([true, true, true]);
      const leads = await Promise.all(cluster.members.map((member) => member.isLeader()));
      expect(leads.filter(Boolean)).toHaveLength(1);
    });

    it('have a new leader when the old one is killed, and take it back with its data', async () => {
      const leader = await cluster.leader();
      await leader.kill();
      await untilReplaced(leader);
      const [other] = othersThan(leader);
      await until(() => answers(other!));
      await leader.restart();
      await cluster.untilHealthy();
      expect(await answers(leader)).toBe(true);
    });

    it('have a new leader when the old one is cut off, which then serves nobody, until the links are mended', async () => {
      const leader = await cluster.leader();
      cluster.links.isolate(leader.id);
      await untilReplaced(leader);
      const [one, another] = othersThan(leader);
      await until(async () => (await answers(one!)) && (await answers(another!)));
      await until(async () => !(await leader.isLeader().catch(() => false)));
      expect(await answers(leader)).toBe(false);
      cluster.links.mend();
      await cluster.untilHealthy();
      await until(() => answers(leader));
    }, 60_000);

    it('go on when a link between two of them is cut', async () => {
      const leader = await cluster.leader();
      const [one, another] = othersThan(leader);
      cluster.links.cut(one!.id, another!.id);
      expect(await Promise.all(cluster.members.map(answers))).toEqual([true, true, true]);
      cluster.links.mend();
    });

    it('are slower where the links delay what they carry', async () => {
      const leader = await cluster.leader();
      cluster.links.delay(leader.id, 100);
      const startedAt = performance.now();
      expect(await engine.asks(leader)).toBe(true);
      expect(performance.now() - startedAt).toBeGreaterThanOrEqual(190);
      cluster.links.mend();
    });
  });
}
