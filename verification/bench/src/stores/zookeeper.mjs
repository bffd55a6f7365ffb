import { aloneOn, ZOOKEEPER } from '../../contestants/index.mjs';
import { withMembers } from '../../contestants/store-of.mjs';
import { AllObservers } from '../measure/all-observers.mjs';
import { howSession } from '../report/how-session.mjs';
import { engineScenarios, FEW_SCENARIOS, FEW_TURNS, TURNS } from '../scenarios/engines.mjs';

/** Writes wait for the disk, as they do in production. */
const PROPERTIES = { 'zookeeper.forceSync': 'yes' };
/** The JVM takes these instead of the command line's, which are for tests: all of its compilers, and more memory. */
const ENV = { _JAVA_OPTIONS: '-XX:TieredStopAtLevel=4 -Xmx512m' };

/** @type {import('./store.d.mts').BenchedStore} */
export const zookeeper = {
  id: 'zookeeper',
  name: 'ZooKeeper',
  how: howSession('zookeeper'),
  // Curator's figure has a limit.
  brief: { ...TURNS, hot4: [2, 1, 1], 'hot4-1ms': [3, 1, 1] },
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
  open: () => openEnsemble(1),
};

/** Three members, of which a majority has each write on its disk. @type {import('./store.d.mts').BenchedStore} */
export const zookeeper3 = {
  id: 'zookeeper-3',
  name: 'ZooKeeper, three members',
  how: howSession('zookeeper', 3),
  brief: FEW_TURNS,
  scenarios: engineScenarios({
    server: 'ZooKeeper',
    sent: 'requests',
    contestants: aloneOn(ZOOKEEPER),
    limits: {},
  }).filter(FEW_SCENARIOS),
  open: () => openEnsemble(3),
};

/** @param {number} size @returns {ReturnType<import('./store.d.mts').BenchedStore['open']>} */
async function openEnsemble(size) {
  const { startZookeeperCluster } = await import('#zookeeper-server');
  const { ZookeeperObserver } = await import('../measure/zookeeper-observer.mjs');
  const [name, value] = ['bench.server', `${process.pid}`];
  const properties = { ...PROPERTIES, [name]: value };
  const ensemble = await startZookeeperCluster(size, { properties, env: ENV });
  await ensemble.untilHealthy();
  // The floor has the first one alone.
  const leader = await ensemble.leader();
  const [first, ...others] = [leader, ...ensemble.members.filter(({ id }) => id !== leader.id)];
  const observers = [first, ...others].map((it, i) => new ZookeeperObserver(it, `${name}=${value}`, i));
  await Promise.all(observers.map((observer) => observer.open()));
  const observer = new AllObservers(observers);
  const url = `zookeeper://${first.url}`;
  return {
    url:
      others.length === 0
        ? url
        : withMembers(
            url,
            others.map((it) => it.url),
          ),
    observer,
    sharesOf: async () => new Map(),
    async close() {
      observer.close();
      await ensemble.stop();
    },
  };
}
