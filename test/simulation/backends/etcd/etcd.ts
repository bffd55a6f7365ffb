import type { LockStoreFactory } from '../../../../libs/distributed-lock/src/port/lock-store.js';
import { DocumentStore } from '../../../../libs/distributed-lock/src/document/store.js';
import { EtcdBackend } from '../../../../libs/distributed-lock/src/etcd/backend.js';
import { SessionRegister } from '../../../../libs/distributed-lock/src/session/register.js';
import { RECHECK_MS, SILENT_WAITER_MS } from '../../../../libs/distributed-lock/src/port/timing.js';
import { systemChance } from '../../../../libs/distributed-lock/src/common/clock.js';
import type { SimProcess } from '../../kernel/process.js';
import type { Network } from '../../network/network.js';
import type { Backend, StoreOptions } from '../backend.js';
import { mayRepeatWrites } from '../repeated-writes.js';
import { EtcdServer } from './etcd-server.js';
import { simulatedGrpc } from './grpc.js';
import { REQUEST_KINDS } from './kinds.js';

/**
 * Of a restored document, an entry of a living client that does not know of it is released after this time, while others wait.
 * One after the other: each is granted the lock first.
 */
const RELEASED_WITHIN_MS = SILENT_WAITER_MS + RECHECK_MS;
/** What a restored backup lacks. */
const BACKUP_AGE_MS = 2000;

const messageLagMs = ({ watchLagMs = 0 }: StoreOptions): number => Number(watchLagMs);

/** etcd, from `LockService` down to the calls of gRPC: sessions, the fence, mailboxes and the core of the documents. */
export const etcd: Backend = {
  name: 'etcd',
  kinds: ['connect', ...REQUEST_KINDS, ...REQUEST_KINDS.map((kind) => `re:${kind}`), 'message', 'message'],
  messages: { acquire: 'take', renew: 'swap', release: 'swap', granted: 'message' },
  // Each request may wait for a connection first, and each session is asked for.
  commandsPerCall: 8,
  // docs/guarantees.md: without a session, or when a holder's session must be asked for.
  commandsInCalm: 4,
  // The reply that a release waits for, the release, the message, the reply that a confirmation waits for, and the confirmation; as
  // much again for a waiter that has left.
  handOffMs: ({ least, spread }, options) =>
    mayRepeatWrites(2 * (least + spread), options.commandTimeoutMs)
      ? 16 * (least + spread) + 2 * messageLagMs(options)
      : Infinity,
  messageLagMs,
  serverCount: () => 1,
  hasSessions: true,
  drawOptions: (dice, watchdogTimeoutMs) => ({
    commandTimeoutMs: Math.min(dice.pick([100, 250, 500, 1000]), Math.floor(watchdogTimeoutMs / 3)),
    watchLagMs: dice.happens(0.2) ? dice.scale(10, 3000) : 0,
    compactEveryMs: dice.happens(0.4) ? dice.scale(50, 5000) : 0,
  }),
  open({ kernel, network, dice }, options) {
    const { commandTimeoutMs, compactEveryMs = 0 } = options;
    const server = new EtcdServer(kernel, dice.fork('etcd'), messageLagMs(options), Number(compactEveryMs));
    network.serve(server, (end) => server.accept(end));
    return {
      servers: [server],
      expired: server.expired,
      get closedAfterForgettingMs() {
        return server.mostEntries * RELEASED_WITHIN_MS;
      },
      storeFor: (process) => storeOn(server, { network, process, commandTimeoutMs }),
      forget: (how) => server.restore(how === 'empty' ? 0 : kernel.now - BACKUP_AGE_MS),
      holdersOf: (key) => server.holdersOf(key),
      storedKeys: () => server.storedKeys(),
      leftovers: () => server.inUse(),
    };
  },
};

interface Place {
  readonly network: Network;
  readonly process: SimProcess;
  readonly commandTimeoutMs: number;
}

function storeOn(server: EtcdServer, { network, process, commandTimeoutMs }: Place): LockStoreFactory {
  return {
    create(context) {
      const { chance = systemChance } = context;
      const clientId = chance.uuid();
      const grpc = simulatedGrpc(network, process, server);
      const backend = new EtcdBackend(
        { endpoints: ['etcd:2379'] },
        {
          ...context,
          chance,
          clientId,
          root: 'nest-lock/',
          commandTimeoutMs,
          loadGrpc: () => Promise.resolve(grpc),
        },
      );
      return new DocumentStore({ name: 'etcd', clientId }, new SessionRegister(backend, context), context);
    },
  };
}
