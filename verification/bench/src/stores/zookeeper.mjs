import { ZOOKEEPER } from '../../contestants/index.mjs';
import { howSession } from '../report/how-session.mjs';
import { engineScenarios } from '../scenarios/engines.mjs';

/** Writes wait for the disk, as they do in production. */
const PROPERTIES = { 'zookeeper.forceSync': 'yes' };
/** The JVM takes these instead of the command line's, which are for tests: all of its compilers, and more memory. */
const ENV = { _JAVA_OPTIONS: '-XX:TieredStopAtLevel=4 -Xmx512m' };

/** @type {import('./store.d.mts').BenchedStore} */
export const zookeeper = {
  id: 'zookeeper',
  name: 'ZooKeeper',
  how: howSession('zookeeper'),
  scenarios: engineScenarios({
    server: 'ZooKeeper',
    sent: 'requests',
    contestants: ZOOKEEPER,
    limits: {
      awaited: 0.75,
      withLock: 1,
      spread: 0.7,
      hopTimesFloor: 3,
      timesCurator: 5,
      jain: 0.95,
      fewest: 0.5,
      // Two, and keep-alives of the session in a run of few locks.
      perLock: 2.05,
      // One a second. The five seconds that are watched may have six, and two processes keep their sessions alive.
      perWaitedKey: 1.9,
      perBeat: 1000,
    },
  }),
  async open() {
    const { startZookeeperServer } = await import('#zookeeper-server');
    const { ZookeeperObserver } = await import('../measure/zookeeper-observer.mjs');
    const mark = `bench.server=${process.pid}`;
    const [name, value] = mark.split('=');
    const server = await startZookeeperServer({ properties: { ...PROPERTIES, [name]: value }, env: ENV });
    const observer = new ZookeeperObserver(server, mark);
    await observer.open();
    return {
      url: `zookeeper://${server.url}`,
      observer,
      sharesOf: async () => new Map(),
      async close() {
        observer.close();
        await server.stop();
      },
    };
  },
};
