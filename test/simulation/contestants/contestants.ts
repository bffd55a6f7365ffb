import { LockService } from '../../../libs/distributed-lock/src/lock/lock.service.js';
import { quorumStore } from '../../../libs/distributed-lock/src/quorum/store.js';
import { redisStore } from '../../../libs/distributed-lock/src/redis/store.js';
import { sourcesOf } from '../kernel/sources.js';
import { InputError } from '../input-error.js';
import type { RedisHost } from '../backends/redis/redis-host.js';
import type { Contestant, Seat } from './contestant.js';
import { loadPeer } from './peers.js';

/** redis-semaphore, README: "called when lock loss is detected due refresh cycle", which comes after `lockTimeout * 0.8`. */
const REFRESH = 0.8;

interface Client {
  on(event: 'error', listener: () => void): void;
}
type Redis = new (options: object) => Client;

type Open = (clients: readonly Client[], seat: Seat) => ReturnType<Awaited<ReturnType<Contestant['load']>>>;

interface Peer extends Partial<Pick<Contestant, 'servers' | 'noticesWithin' | 'survivesLoss'>> {
  readonly name: string;
  readonly module: string;
  /** A second module that it needs. */
  readonly further?: string;
}

/** @param open is given the modules of the library, and then the clients of each process */
function peer(
  { module, further, servers = 1, ...rest }: Peer,
  open: (library: never, more: never) => Open,
): Contestant {
  return {
    ...rest,
    servers,
    looksInTimers: true,
    async load() {
      const { Redis } = (await loadPeer('ioredis')) as { Redis: Redis };
      const library = await loadPeer(module);
      const opened = open(library as never, (further && (await loadPeer(further))) as never);
      return (seat) => opened(clientsOf(Redis, seat), seat);
    },
  };
}

function clientsOf(Redis: Redis, { hosts, process, commandTimeoutMs }: Seat): readonly Client[] {
  return hosts.map((host) => {
    const limit = commandTimeoutMs === undefined ? {} : { commandTimeout: commandTimeoutMs };
    const client = new Redis({ ...host.targetFor(process), ...limit });
    client.on('error', () => undefined);
    return client;
  });
}

function ours(name: string, servers: 1 | 3): Contestant {
  return {
    name,
    servers,
    looksInTimers: false,
    survivesLoss: servers === 3,
    load: async () => (seat) => {
      const { process, hosts, dice, leaseMs } = seat;
      const options = { commandTimeoutMs: 250, restartGuardMs: servers === 3 ? 2 * leaseMs : 0 };
      const stores = hosts.map((host) => redisStore(host.targetFor(process), options));
      const store = servers === 3 ? quorumStore(stores) : stores[0];
      const sources = sourcesOf(process, dice);
      const locks = new LockService({ ...sources, store: store as never, watchdogTimeoutMs: leaseMs });
      locks.open();
      return (key, work) =>
        locks.withLock(key, { waitMs: 2000 }, (lock) => work({ validForMs: () => lock.validForMs }));
    },
  };
}

/** A key that expires, and a holder that believes in it for ever: what the rules must convict. */
const naive: Contestant = {
  name: 'naive',
  servers: 1,
  looksInTimers: true,
  load: async () => {
    const { Redis } = await import('ioredis');
    return ({ process, hosts: [host], leaseMs }) => {
      const client = new Redis((host as RedisHost).targetFor(process));
      client.on('error', () => undefined);
      return async (key, work) => {
        if (!(await client.set(key, process.name, 'PX', leaseMs, 'NX'))) throw new Error('not acquired');
        await work({ validForMs: () => Infinity });
        await client.del(key);
      };
    };
  },
};

// --- the other libraries, each called as its README does ------------------------------------------------------------

type RedlockClass = new (clients: readonly Client[]) => Client & {
  using(keys: string[], ms: number, work: (signal: AbortSignal) => Promise<void>): Promise<void>;
};

const untilAborted = (signal: AbortSignal) => ({ validForMs: () => (signal.aborted ? 0 : Infinity) });

const redlockWith =
  (Redlock: RedlockClass): Open =>
  (clients, { leaseMs }) => {
    const redlock = new Redlock(clients);
    redlock.on('error', () => undefined);
    return (key, work) => redlock.using([key], leaseMs, (signal) => work(untilAborted(signal)));
  };
const redlock = ({ default: Redlock }: { default: RedlockClass }): Open => redlockWith(Redlock);
const sesamecare = ({ Redlock }: { Redlock: RedlockClass }): Open => redlockWith(Redlock);

type MutexClass = new (
  clients: unknown,
  key: string,
  options: object,
) => { readonly isAcquired: boolean; acquire(): Promise<void>; release(): Promise<void> };

const mutexWith =
  (Mutex: MutexClass, isOne: boolean): Open =>
  (clients, { leaseMs }) =>
  async (key, work) => {
    const options = { lockTimeout: leaseMs, onLockLost: () => undefined };
    const mutex = new Mutex(isOne ? clients[0] : clients, key, options);
    await mutex.acquire();
    try {
      await work({ validForMs: () => (mutex.isAcquired ? Infinity : 0) });
    } finally {
      await mutex.release();
    }
  };

interface Universal {
  readonly IoredisAdapter: new (client: Client) => object;
  readonly createLock: NewUniversal;
  readonly createRedlock: NewUniversal;
}
type NewUniversal = (options: object) => {
  using(work: (signal: AbortSignal) => Promise<void>): Promise<void>;
};

const universal =
  (isOne: boolean) =>
  ({ IoredisAdapter, createLock, createRedlock }: Universal): Open =>
  (clients, { leaseMs: ttl }) => {
    const adapters = clients.map((client) => new IoredisAdapter(client));
    return (key, work) => {
      const lock = isOne
        ? createLock({ adapter: adapters[0], key, ttl })
        : createRedlock({ adapters, key, ttl });
      return lock.using((signal) => work(untilAborted(signal)));
    };
  };

interface VerrouLock {
  run(work: () => Promise<void>): Promise<readonly [isDone: boolean, unknown]>;
  extend(): Promise<void>;
  getRemainingTime(): number;
}
type VerrouClass = new (options: object) => { createLock(key: string, ms: number): VerrouLock };

const verrou =
  (
    { Verrou }: { Verrou: VerrouClass },
    { redisStore: driver }: { redisStore: (it: object) => object },
  ): Open =>
  ([connection], { leaseMs }) => {
    const locks = new Verrou({ default: 'redis', stores: { redis: { driver: driver({ connection }) } } });
    return async (key, work) => {
      const lock = locks.createLock(key, leaseMs);
      const grant = { validForMs: () => lock.getRemainingTime(), extend: () => lock.extend() };
      const [isDone] = await lock.run(() => work(grant));
      if (!isDone) throw new Error('not acquired');
    };
  };

export const CONTESTANTS: readonly Contestant[] = [
  ours('ours', 1),
  ours('ours-3', 3),
  naive,
  peer({ name: 'redlock', module: 'redlock' }, redlock),
  peer({ name: 'redlock-3', module: 'redlock', servers: 3, survivesLoss: true }, redlock),
  peer({ name: 'sesamecare', module: '@sesamecare-oss/redlock' }, sesamecare),
  peer(
    { name: 'sesamecare-3', module: '@sesamecare-oss/redlock', servers: 3, survivesLoss: true },
    sesamecare,
  ),
  peer(
    { name: 'semaphore', module: 'redis-semaphore', noticesWithin: REFRESH },
    ({ Mutex }: { Mutex: MutexClass }) => mutexWith(Mutex, true),
  ),
  peer(
    { name: 'semaphore-3', module: 'redis-semaphore', servers: 3, noticesWithin: REFRESH },
    ({ RedlockMutex }: { RedlockMutex: MutexClass }) => mutexWith(RedlockMutex, false),
  ),
  peer({ name: 'universal', module: 'redlock-universal' }, universal(true)),
  peer(
    { name: 'universal-3', module: 'redlock-universal', servers: 3, survivesLoss: true },
    universal(false),
  ),
  peer({ name: 'verrou', module: '@verrou/core', further: '@verrou/core/drivers/redis' }, verrou),
];

/** @throws InputError for a name that none has */
export function contestantNamed(name: string): Contestant {
  const found = CONTESTANTS.find((it) => it.name === name);
  if (found) return found;
  throw new InputError(
    `The contestant is one of ${CONTESTANTS.map((it) => it.name).join(', ')}, and not "${name}"`,
  );
}
