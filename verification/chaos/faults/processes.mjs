import { setTimeout as pause } from 'node:timers/promises';
import {
  GOAL_MS,
  GRACE_MS,
  LATE_TIMER_MS,
  LEASE_MS,
  LONG_LEASE_MS,
  LOOK_MS,
  SLACK_MS,
} from '../constants.mjs';

/** A process takes the place of one that ended. */
export async function replace(world) {
  await pause(world.random.between(0, 300));
  await world.startApp();
}

/** One that is not inside now. */
async function waiter(world) {
  const holder = await world.holder();
  return world.victims.find((app) => app !== holder) ?? holder;
}

/**
 * @param {{ unreachedMs: number, leaseMs?: number, noticedMs?: number }} times `unreachedMs`: for how long a grant to
 * another owner of a dead process may keep a key: not at all where the store knows who is there, otherwise its initial
 * lease. `noticedMs`: how late the others usually know that a lease is over
 * @returns {import('../index.d.mts').Kind[]}
 */
export function processFaults({ unreachedMs, leaseMs = LEASE_MS, noticedMs = LATE_TIMER_MS }) {
  /** Its lease, and the short one of a grant that is pushed to another caller of the frozen process. */
  const frozenMs = leaseMs + Math.max(noticedMs, LOOK_MS) + SLACK_MS;
  return [
    {
      name: 'crash-holder',
      says: 'kill -9 of a process that holds a lock',
      goalMs: leaseMs + noticedMs,
      recoverMs: leaseMs + unreachedMs + SLACK_MS,
      after: replace,
      async inject(world) {
        const app = await world.holder();
        await app.kill();
        return { fault: { app: app.name } };
      },
    },
    {
      name: 'crash-waiter',
      says: 'kill -9 of a process that waits',
      // It may have been let in meanwhile.
      recoverMs: leaseMs + unreachedMs + SLACK_MS,
      after: replace,
      async inject(world) {
        const app = await waiter(world);
        await app.kill();
        return { fault: { app: app.name } };
      },
    },
    {
      name: 'freeze-holder',
      says: 'SIGSTOP of a holder for longer than its lease',
      recoverMs: frozenMs,
      async inject(world) {
        const app = await world.holder();
        await app.freeze(world.random.between(1.1, 1.8) * leaseMs);
        return { fault: { app: app.name, freezes: true } };
      },
    },
    {
      name: 'suspended',
      says: 'the machine of a holder is suspended for longer than its lease: its monotonic clock stands still',
      traffic: { sleeps: true },
      recoverMs: frozenMs,
      async inject(world) {
        const app = await world.holder();
        await app.suspend(world.random.between(1.1, 1.8) * leaseMs);
        return { fault: { app: app.name, freezes: true } };
      },
    },
    {
      name: 'shutdown',
      says: 'SIGTERM of a process under load',
      traffic: { leaseMs: LONG_LEASE_MS },
      goalMs: GOAL_MS,
      recoverMs: GRACE_MS + SLACK_MS,
      after: replace,
      async inject(world) {
        const app = world.random.pick(world.victims);
        await app.close();
        return { fault: { app: app.name } };
      },
    },
  ];
}
