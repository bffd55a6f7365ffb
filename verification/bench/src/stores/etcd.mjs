import { ETCD } from '../../contestants/index.mjs';
import { howSession } from '../report/how-session.mjs';
import { engineScenarios } from '../scenarios/engines.mjs';

/** Writes wait for the disk by default. All revisions of a run stay until the next one. */
const SETTINGS = { 'quota-backend-bytes': 8 * 2 ** 30 };

/** @type {import('./store.d.mts').BenchedStore} */
export const etcd = {
  id: 'etcd',
  name: 'etcd',
  how: howSession('etcd'),
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
  async open() {
    const { startEtcdServer } = await import('#etcd-server');
    const { EtcdObserver } = await import('../measure/etcd-observer.mjs');
    const server = await startEtcdServer({ settings: SETTINGS });
    const observer = new EtcdObserver(server.url);
    return {
      url: server.url,
      observer,
      sharesOf: async () => new Map(),
      async close() {
        observer.close();
        await server.stop();
      },
    };
  },
};
