import type { LockStoreFactory } from '../../../../libs/distributed-lock/src/port/lock-store.js';
import { DocumentStore } from '../../../../libs/distributed-lock/src/stores/document/document.store.js';
import { SessionRegister } from '../../../../libs/distributed-lock/src/stores/session/session-register.js';
import { ZookeeperBackend } from '../../../../libs/distributed-lock/src/stores/session/zookeeper/zookeeper.backend.js';
import { systemChance } from '../../../../libs/distributed-lock/src/time/chance.js';
import type { SimProcess } from '../../kernel/process.js';
import type { Network } from '../../network/network.js';
import type { Backend } from '../backend.js';
import { holdersOf, inUse, PATHS } from './in-use.js';
import { REQUEST_KINDS } from './kinds.js';
import { simulatedConnect } from './simulated-socket.js';
import { ZookeeperServer } from './zookeeper-server.js';

/** What a restored backup lacks. */
const BACKUP_AGE_MS = 2000;
/** An address, so that no name is looked up. */
const HOST = '10.0.0.1';

/** ZooKeeper, from `LockService` down to the bytes on the socket: the wire client, sessions, mailboxes and the core of the documents. */
export const zookeeper: Backend = {
  name: 'zookeeper',
  kinds: ['connect', ...REQUEST_KINDS, ...REQUEST_KINDS.map((kind) => `re:${kind}`), 'message', 'message'],
  // Each request may wait for a connection first, and each session is asked for.
  commandsPerCall: 8,
  // docs/guarantees.md: without a session, or when a holder's session must be asked for.
  commandsInCalm: 4,
  serverCount: 1,
  hasSessions: true,
  drawOptions: (dice, watchdogTimeoutMs) => ({
    commandTimeoutMs: Math.min(dice.pick([100, 250, 500, 1000]), Math.floor(watchdogTimeoutMs / 3)),
    leastSessionMs: Math.floor(watchdogTimeoutMs * dice.pick([0.1, 0.1, 1.5])),
    mostSessionMs: watchdogTimeoutMs * dice.pick([1.5, 4]),
  }),
  open({ kernel, network, dice }, { commandTimeoutMs, leastSessionMs, mostSessionMs }) {
    const lengths = { leastMs: Number(leastSessionMs), mostMs: Number(mostSessionMs) };
    const server = new ZookeeperServer(kernel, dice.fork('zookeeper'), lengths);
    network.serve(server, (end) => server.accept(end));
    return {
      servers: [server],
      storeFor: (process) => storeOn(server, { network, process, commandTimeoutMs }),
      forget: (how) => server.restore(how === 'empty' ? 0 : kernel.now - BACKUP_AGE_MS),
      holdersOf: (key) => holdersOf(server.leader, key),
      leftovers: () => inUse(server.leader),
    };
  },
};

interface Place {
  readonly network: Network;
  readonly process: SimProcess;
  readonly commandTimeoutMs: number;
}

function storeOn(server: ZookeeperServer, { network, process, commandTimeoutMs }: Place): LockStoreFactory {
  return {
    create(context) {
      const { clock, chance = systemChance, watchdogTimeoutMs: sessionMs } = context;
      const clientId = chance.uuid();
      const backend = new ZookeeperBackend(
        {
          clock,
          chance,
          clientId,
          paths: PATHS,
          servers: [{ host: HOST, port: 2181 }],
          connect: simulatedConnect(network, process, () => server),
          tls: undefined,
          auth: undefined,
          sessionMs,
          commandTimeoutMs,
        },
        context,
        `${HOST}:2181`,
      );
      return new DocumentStore('zookeeper', clientId, new SessionRegister(backend, clock), context);
    },
  };
}
