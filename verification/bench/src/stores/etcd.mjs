import { aloneOn, ETCD } from '../../contestants/index.mjs';
import { withMembers } from '../../contestants/store-of.mjs';
import { AllObservers } from '../measure/all-observers.mjs';
import { howSession } from '../report/how-session.mjs';
import { engineScenarios, FEW_SCENARIOS, FEW_TURNS, TURNS } from '../scenarios/engines.mjs';

/** Writes wait for the disk by default. All revisions of a run stay until the next one. */
const SETTINGS = { 'quota-backend-bytes': 8 * 2 ** 30 };

/** @type {import('./store.d.mts').BenchedStore} */
export const etcd = {
  id: 'etcd',
  name: 'etcd',
  how: howSession('etcd'),
  brief: TURNS,
  scenarios: engineScenarios({
    server: 'etcd',
    sent: 'requests',
    contestants: ETCD,
    limits: {
      awaited: 0.85,
      withLock: 1.1,
      spread: 3,
      hopTimesFloor: 3,
      timesPeer: 10,
      jain: 0.95,
      fewest: 0.5,
      // Two, and keep-alives of the session in a run of few locks.
      perLock: 2.05,
      // One a second. The five seconds that are watched may have six, and two processes keep their sessions alive.
      perWaitedKey: 1.6,
      perBeat: 9,
    },
  }),
  open: () => openCluster(1),
};

/** Three members, of which a majority has each write on its disk. @type {import('./store.d.mts').BenchedStore} */
export const etcd3 = {
  id: 'etcd-3',
  name: 'etcd, three members',
  how: howSession('etcd', 3),
  brief: FEW_TURNS,
  scenarios: engineScenarios({
    server: 'etcd',
    sent: 'requests',
    contestants: aloneOn(ETCD),
    limits: {},
  }).filter(FEW_SCENARIOS),
  open: () => openCluster(3),
};

/** @param {number} size @returns {ReturnType<import('./store.d.mts').BenchedStore['open']>} */
async function openCluster(size) {
  const { startEtcdCluster } = await import('#etcd-server');
  const { EtcdObserver } = await import('../measure/etcd-observer.mjs');
  const cluster = await startEtcdCluster(size, { settings: SETTINGS });
  await cluster.untilHealthy();
  // The floor has the first one alone.
  const leader = await cluster.leader();
  const [first, ...others] = [leader, ...cluster.members.filter(({ id }) => id !== leader.id)];
  const observer = new AllObservers([first, ...others].map(({ url }) => new EtcdObserver(url)));
  return {
    url:
      others.length === 0
        ? first.url
        : withMembers(
            first.url,
            others.map(({ url }) => new URL(url).host),
          ),
    observer,
    sharesOf: async () => new Map(),
    async close() {
      observer.close();
      await cluster.stop();
    },
  };
}
