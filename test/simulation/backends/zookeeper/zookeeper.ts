import type { LockStoreFactory } from '../../../../libs/distributed-lock/src/port/lock-store.js';
import { DocumentStore } from '../../../../libs/distributed-lock/src/document/store.js';
import { SessionRegister } from '../../../../libs/distributed-lock/src/session/register.js';
import { ZookeeperBackend } from '../../../../libs/distributed-lock/src/zookeeper/backend.js';
import { shuffled } from '../../../../libs/distributed-lock/src/zookeeper/store.js';
import { systemChance } from '../../../../libs/distributed-lock/src/common/clock.js';
import type { SimProcess } from '../../kernel/process.js';
import type { SimServer } from '../../kernel/server.js';
import type { Network } from '../../network/network.js';
import type { Backend, StoreOptions } from '../backend.js';
import { mayRepeatWrites } from '../repeated-writes.js';
import { holdersOf, inUse, PATHS, storedKeys } from './in-use.js';
import { REQUEST_KINDS } from './kinds.js';
import { simulatedConnect } from './simulated-socket.js';
import { Ensemble } from './ensemble.js';
import { ZOOKEEPER_EVENTS, ZookeeperServer } from './zookeeper-server.js';

/** What a restored backup lacks. */
const BACKUP_AGE_MS = 2000;
/** A server refuses a client that has seen more, and the client gives its session up after twice its length. */
const LENGTHS_UNTIL_GIVEN_UP = 2;
const RECONNECT_MS = 5000;
const PORT = 2181;
/** Addresses, so that no name is looked up. */
const HOSTS = ['10.0.0.1', '10.0.0.2', '10.0.0.3'];

const betweenServersMs = ({ members, memberLatencyMs }: StoreOptions): number =>
  members === 1 ? 0 : 2 * Number(memberLatencyMs);

/** ZooKeeper, from `LockService` down to the bytes on the socket: the wire client, sessions, mailboxes and the core of the documents. */
export const zookeeper: Backend = {
  name: 'zookeeper',
  kinds: ['connect', ...REQUEST_KINDS, ...REQUEST_KINDS.map((kind) => `re:${kind}`), 'message', 'message'],
  messages: { acquire: 'take', renew: 'swap', release: 'swap', granted: 'message' },
  // Each request may wait for a connection first, and each session is asked for.
  commandsPerCall: 8,
  // docs/guarantees.md: without a session, or when a holder's session must be asked for.
  commandsInCalm: 4,
  // The reply that a release waits for, the release, the event, the reading of the mailbox and the confirmation; as much again
  // for a waiter that has left.
  handOffMs: ({ least, spread }, options) => {
    const betweenMs = betweenServersMs(options);
    return mayRepeatWrites(2 * (least + spread) + betweenMs, options.commandTimeoutMs)
      ? 14 * (least + spread) + 4 * betweenMs
      : Infinity;
  },
  betweenServersMs,
  messageLagMs: (options) => betweenServersMs(options) / 2,
  serverEvents: ZOOKEEPER_EVENTS,
  serverCount: () => HOSTS.length,
  hasSessions: true,
  drawOptions: (dice, watchdogTimeoutMs) => ({
    commandTimeoutMs: Math.min(dice.pick([100, 250, 500, 1000]), Math.floor(watchdogTimeoutMs / 3)),
    leastSessionMs: Math.floor(watchdogTimeoutMs * dice.pick([0.1, 0.1, 1.5])),
    mostSessionMs: watchdogTimeoutMs * dice.pick([1.5, 4]),
    members: dice.pick([1, 3, 3]),
    memberLatencyMs: dice.happens(0.7) ? dice.scale(1, 20) : dice.scale(20, watchdogTimeoutMs / 3),
    syncLimitMs: dice.pick([dice.scale(50, 3000), 3000]),
  }),
  open({ kernel, network, dice }, { commandTimeoutMs, ...options }) {
    const lengths = { leastMs: Number(options.leastSessionMs), mostMs: Number(options.mostSessionMs) };
    const ensemble = new Ensemble(kernel, dice.fork('ensemble'), {
      lengths,
      memberLatencyMs: Number(options.memberLatencyMs),
      syncLimitMs: Number(options.syncLimitMs),
    });
    const { servers, decisions } = ensemble;
    for (const host of HOSTS.slice(0, Number(options.members))) {
      const server = new ZookeeperServer(host, kernel, dice.fork(host), ensemble);
      network.serve(server, (end) => server.accept(end));
      servers.push(server);
    }
    ensemble.begin();
    return {
      servers,
      expired: decisions.expired,
      closedAfterForgettingMs: LENGTHS_UNTIL_GIVEN_UP * lengths.mostMs + RECONNECT_MS,
      storeFor: (process) => storeOn(servers, { network, process, commandTimeoutMs }),
      forget: (how) => ensemble.restore(how === 'empty' ? 0 : kernel.now - BACKUP_AGE_MS),
      holdersOf: (key) => holdersOf(decisions, key),
      storedKeys: () => storedKeys(decisions),
      leftovers: () => inUse(decisions),
    };
  },
};

interface Place {
  readonly network: Network;
  readonly process: SimProcess;
  readonly commandTimeoutMs: number;
}

function storeOn(
  servers: readonly SimServer[],
  { network, process, commandTimeoutMs }: Place,
): LockStoreFactory {
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
          servers: shuffled(servers, chance).map(({ name: host }) => ({ host, port: PORT })),
          connect: simulatedConnect(network, process, servers),
          tls: undefined,
          auth: undefined,
          sessionMs,
          commandTimeoutMs,
        },
        context,
        servers.map(({ name }) => `${name}:${PORT}`).join(','),
      );
      return new DocumentStore(
        { name: 'zookeeper', clientId },
        new SessionRegister(backend, { clock, chance }),
        context,
      );
    },
  };
}
