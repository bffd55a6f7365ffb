import { expect, it } from '@jest/globals';
import { ManualClock } from 'nestjs-distributed-lock/testing';
import { LOCK } from '../../libs/distributed-lock/src/port/claim.js';
import type { AcquireRequest, LockStore } from '../../libs/distributed-lock/src/port/lock-store.js';
import type { Leases } from '../../libs/distributed-lock/src/stores/core/leases.js';
import { follow } from '../support/lock-world.js';
import { SessionServer } from '../support/session-server.js';

it('what a living client holds without knowing it is released while others wait for it', async () => {
  const clock = new ManualClock();
  const server = new SessionServer(clock);
  const context = { clock, keyPrefix: 'app:', watchdogTimeoutMs: 30_000 };
  const [forgetful, other] = [server.create(context, {}), server.create(context, {})];
  const request = (store: LockStore): AcquireRequest => {
    const owner = `${store.clientId}:1`;
    return { key: 'k', owner, claim: LOCK, leaseMs: 30_000, waitMs: Infinity, ticket: 0, tokens: 1 };
  };
  await forgetful.acquire(request(forgetful));
  forget(forgetful);
  let isGranted = false;
  other.notifications$.subscribe(({ kind }) => (isGranted ||= kind === 'granted'));
  for (let s = 0; s < 6 && !isGranted; s++) {
    follow(other.acquire(request(other)));
    await clock.advance(1000);
  }
  expect(isGranted).toBe(true);
  expect((await other.inspect('k'))?.holders).toEqual([request(other).owner]);
});

it('is released also when its own client alone tries to acquire', async () => {
  const clock = new ManualClock();
  const client = new SessionServer(clock).create({ clock, keyPrefix: 'app:', watchdogTimeoutMs: 30_000 }, {});
  const tryAcquire = (number: number) => {
    const owner = `${client.clientId}:${number}`;
    const more = { claim: LOCK, leaseMs: 30_000, waitMs: 0, ticket: 0, tokens: 1 };
    return client.acquire({ key: 'k', owner, ...more });
  };
  await tryAcquire(1);
  forget(client);
  expect((await tryAcquire(2)).kind).toBe('busy');
  await clock.advance(4000);
  expect((await tryAcquire(3)).kind).toBe('granted');
});

/** As after a defect: neither a lane nor a lease of this client knows of its owners. */
function forget(store: LockStore): void {
  const { lanes, leases } = store as unknown as { lanes: { delete(name: string): void }; leases: Leases };
  lanes.delete('app:k');
  leases.end(`${store.clientId}:1`);
}
