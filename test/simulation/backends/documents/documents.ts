import type { LockStoreFactory } from '../../../../libs/distributed-lock/src/port/lock-store.js';
import { DocumentStore } from '../../../../libs/distributed-lock/src/document/store.js';
import { PostgresRegister } from '../../../../libs/distributed-lock/src/postgres/register.js';
import { LockTable } from '../../../../libs/distributed-lock/src/sql/lock-table.js';
import { SqlRegister } from '../../../../libs/distributed-lock/src/sql/register.js';
import { systemChance } from '../../../../libs/distributed-lock/src/common/clock.js';
import type { SimProcess } from '../../kernel/process.js';
import type { Network } from '../../network/network.js';
import type { Backend } from '../backend.js';
import { SimDatabase } from './database.js';
import { listenBy } from './listen.js';
import { SqlServer } from './sql-server.js';

/** Who waits or holds reads its document so often, where the database sends no notifications. */
const SLOWEST_POLL_MS = 250;

/** The SQL stores, from `LockService` down to `SqlConnection`, `Poller` and the core of the documents. */
export const documents: Backend = {
  name: 'documents',
  kinds: [
    'connect',
    'hello',
    'take',
    'swap',
    'swap',
    'read',
    're:take',
    're:swap',
    're:swap',
    're:swap',
    're:read',
    'notification',
  ],
  messages: { acquire: 'take', renew: 'swap', release: 'swap', granted: 'notification' },
  commandsPerCall: 4,
  // On a key that many processes change a call may take six commands.
  commandsInCalm: 3,
  serverCount: () => 1,
  hasFarProcesses: true,
  // Written, notified or polled, read, and confirmed before the next caller is told.
  handOffMs: ({ least, spread }, { hasNotifications }) =>
    10 * (least + spread) + (hasNotifications ? 0 : 2 * SLOWEST_POLL_MS),
  drawOptions: (dice, watchdogTimeoutMs) => ({
    commandTimeoutMs: Math.min(dice.pick([100, 250, 500]), Math.floor(watchdogTimeoutMs / 3)),
    hasNotifications: dice.happens(0.5),
  }),
  open({ kernel, network }, { commandTimeoutMs, hasNotifications }) {
    const server = new SqlServer(kernel);
    network.serve(server, (end) => server.accept(end));
    return {
      servers: [server],
      storeFor: (process) =>
        storeOn(server, { network, process, commandTimeoutMs, hasNotifications: hasNotifications === true }),
      forget: (how) => server.rows.goBackTo(how === 'empty' ? 0 : server.timeOfDay - 2000),
      holdersOf: (key) => server.holdersOf(key),
      storedKeys: () => server.rows.names(),
      leftovers: () => server.rows.inUse(),
    };
  },
};

interface Place {
  readonly network: Network;
  readonly process: SimProcess;
  readonly commandTimeoutMs: number;
  readonly hasNotifications: boolean;
}

function storeOn(
  server: SqlServer,
  { network, process, commandTimeoutMs, hasNotifications }: Place,
): LockStoreFactory {
  return {
    create(context) {
      const { clock, chance = systemChance } = context;
      const clientId = chance.uuid();
      const database = new SimDatabase(network, process, server, clock);
      const listen = listenBy(network, process, server);
      const table = new LockTable('postgres', 'nest_lock');
      const own = { ...context, chance, clientId, table, access: 'create' as const, commandTimeoutMs };
      const register = hasNotifications
        ? new PostgresRegister(database, listen, own)
        : new SqlRegister(database, own);
      return new DocumentStore({ name: 'documents', clientId }, register, context);
    },
  };
}
