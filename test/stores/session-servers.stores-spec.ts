import { connect } from 'node:net';
import { connect as connectSecurely, type ConnectionOptions } from 'node:tls';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { makeCertificates } from '#certificates';
import { startEtcdCluster, startEtcdServer, type EtcdServerOptions } from '#etcd-server';
import { until } from '#until';
import { startZookeeperCluster, startZookeeperServer, type ZookeeperServerOptions } from '#zookeeper-server';
import type { Member, OwnCluster } from '../../tools/own-cluster/index.mjs';
import { describeWith } from './support/describe-with.js';

const START_MS = 90_000;
/** Some elections of ZooKeeper fail, and are held again after several seconds. */
const ELECTION_MS = 40_000;

/** One question in the server's own protocol, and what tells that it was answered. */
const etcd = {
  title: 'etcd',
  describe: describeWith('etcd'),
  one: () => startEtcdServer({ settings: { 'quota-backend-bytes': 16_777_216 } }),
  secure: (tls: EtcdServerOptions['tls']) => startEtcdServer({ tls }),
  request: Buffer.from('GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n'),
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

/** ZooKeeper's request for a session of 10 s. */
const newSession = Buffer.alloc(48);
newSession.writeInt32BE(44);
newSession.writeInt32BE(10_000, 16);
newSession.writeInt32BE(16, 28);

const zookeeper = {
  title: 'ZooKeeper',
  describe: describeWith('zookeeper'),
  one: () => startZookeeperServer({ settings: { maxSessionTimeout: 2_000 } }),
  secure: (tls: ZookeeperServerOptions['tls']) => startZookeeperServer({ tls }),
  request: newSession,
  three: () => startZookeeperCluster(3),
  /** A new session is a write, which only the majority can make. It is told how long it lasts. */
  async asks({ port }: Member): Promise<boolean> {
    const reply = await new Promise<Buffer>((resolve, reject) => {
      const socket = connect(port, '127.0.0.1', () => socket.write(newSession));
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

  engine.describe(`the ${engine.title} server for tests with TLS`, () => {
    const { ca, client, server: identity } = makeCertificates();

    /** Whether it answers a client that connects with `options`. */
    const answersTo = (server: Member, options: ConnectionOptions) =>
      new Promise<boolean>((resolve) => {
        const socket = connectSecurely({ host: '127.0.0.1', port: server.port, ...options }, () =>
          socket.write(engine.request),
        );
        socket.once('data', () => socket.destroy() && resolve(true));
        socket.once('error', () => resolve(false)).once('close', () => resolve(false));
      });

    it('answers who trusts its authority', async () => {
      const server = await engine.secure(identity);
      expect(await answersTo(server, { ca })).toBe(true);
      expect(await answersTo(server, {})).toBe(false);
      await server.stop();
    });

    it('answers only who shows a certificate, where it asks for one', async () => {
      const server = await engine.secure({ ...identity, clientCa: ca });
      expect(await answersTo(server, { ca, ...client })).toBe(true);
      expect(await answersTo(server, { ca })).toBe(false);
      await server.stop();
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
      }, ELECTION_MS);

    const untilAllAnswer = () =>
      until(async () => !(await Promise.all(cluster.members.map(answers))).includes(false));

    it('all serve clients, and one leads', async () => {
      await untilAllAnswer();
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
      await until(() => answers(leader));
      expect(await leader.isLeader()).toBe(false);
    }, 90_000);

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
    }, 90_000);

    it('go on when a link between two of them is cut', async () => {
      const leader = await cluster.leader();
      const [one, another] = othersThan(leader);
      cluster.links.cut(one!.id, another!.id);
      await untilAllAnswer();
      expect(await leader.isLeader()).toBe(true);
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
