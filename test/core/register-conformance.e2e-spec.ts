import { describeLockStoreContract, ManualClock } from 'nestjs-distributed-lock/testing';
import type {
  LockStore,
  LockStoreContext,
  LockStoreFactory,
} from '../../libs/distributed-lock/src/port/lock-store.js';
import { FaultyServer, type RegisterFaults } from '../support/faulty-register.js';
import { follow } from '../support/lock-world.js';
import { SessionServer } from '../support/session-server.js';

interface Server {
  create(context: LockStoreContext, faults: RegisterFaults): LockStore;
}

describeOn('a remote register', (clock) => new FaultyServer(clock));
describeOn('a back end with sessions', (clock) => new SessionServer(clock));

function describeOn(name: string, serverOn: (clock: ManualClock) => Server): void {
  describeOnRegister(name, serverOn, {});

  describeOnRegister(`${name} whose replies take 3 ms`, serverOn, {
    command: () => ({ executedAfterMs: [1], repliedAfterMs: 2 }),
  });

  describeOnRegister(`${name} that executes each call twice`, serverOn, {
    command: () => ({ executedAfterMs: [0, 0] }),
  });

  describeOnRegister(`${name} whose notifications come late and twice`, serverOn, {
    notification: () => [4, 9],
  });

  describeOnRegister(`${name} with other writers, whose every third call is too late`, serverOn, {
    command: everyThird(() => ({ isOvertaken: true })),
  });
}

function describeOnRegister(
  name: string,
  serverOn: (clock: ManualClock) => Server,
  faults: RegisterFaults,
): void {
  describeLockStoreContract(name, () => {
    const clock = new ManualClock();
    const server = serverOn(clock);
    const store: LockStoreFactory = {
      create: (context) => letTimePass(server.create(context, faults), clock),
    };
    return { store, clock, pass: (ms) => clock.advance(ms) };
  });
}

/** Time passes while a caller waits for a reply. */
function letTimePass(store: LockStore, clock: ManualClock): LockStore {
  const call = async <T>(reply: Promise<T>): Promise<T> => {
    const followed = follow(reply);
    await clock.settle();
    while (followed.state === 'pending') await clock.advance(1);
    return followed.promise;
  };
  const delayed: Partial<LockStore> = {
    acquire: (request) => call(store.acquire(request)),
    acquireAll: (requests) => call(store.acquireAll?.(requests) ?? Promise.resolve(null)),
    renew: (renewals) => call(store.renew(renewals)),
    release: (request) => call(store.release(request)),
    inspect: (key) => call(store.inspect(key)),
    forceRelease: (key) => call(store.forceRelease(key)),
    close: () => call(store.close()),
  };
  return Object.assign(Object.create(store) as LockStore, delayed);
}

function everyThird<T>(make: () => T): () => T | undefined {
  let count = 0;
  return () => (++count % 3 === 0 ? make() : undefined);
}
