import { setTimeout as pause } from 'node:timers/promises';
import { LEASE_MS, LONG_LEASE_MS, LOOK_MS, SLACK_MS } from '../constants.mjs';
import { ClockShift, missingShift } from './clock-shift.mjs';

/** Jumps to a new time, and stays there for a while. */
async function jump({ store, random }, ms) {
  store.shift.set(ms);
  await pause(random.between(300, 1500));
}

export const CLOCK_FAULTS = [
  {
    name: 'clock-app',
    says: 'the time of day of the processes jumps by up to an hour, to and fro',
    missing: missingShift,
    shift: () => new ClockShift(),
    shifts: 'apps',
    recoverMs: LOOK_MS + SLACK_MS,
    inject: (world) => jump(world, world.random.between(-3_600_000, 3_600_000)),
  },
  {
    name: 'clock-redis-forward',
    says: "Redis' time of day jumps forward by up to ten leases: locks expire early",
    missing: missingShift,
    shift: () => new ClockShift(),
    shifts: 'server',
    losesData: true,
    recoverMs: LEASE_MS + LOOK_MS + SLACK_MS,
    async inject(world) {
      world.shiftedMs = (world.shiftedMs ?? 0) + world.random.between(0.3, 10) * LEASE_MS;
      await jump(world, world.shiftedMs);
    },
  },
  {
    name: 'clock-redis-back',
    says: "Redis' time of day jumps back by half a lease: what is held is held longer",
    missing: missingShift,
    shift: () => new ClockShift(),
    shifts: 'server',
    stopsStore: true,
    recoverMs: 2 * LEASE_MS + LOOK_MS + SLACK_MS,
    async inject(world) {
      world.shiftedMs = (world.shiftedMs ?? 0) - world.random.between(0.1, 0.5) * LEASE_MS;
      await jump(world, world.shiftedMs);
    },
  },
  {
    name: 'clock-redis-far-back',
    says: "Redis' time of day jumps back by up to an hour: whoever lives notices nothing",
    missing: missingShift,
    shift: () => new ClockShift(),
    shifts: 'server',
    traffic: { leaseMs: LONG_LEASE_MS },
    recoverMs: LOOK_MS + SLACK_MS,
    async inject(world) {
      world.shiftedMs = (world.shiftedMs ?? 0) - world.random.between(60_000, 3_600_000);
      await jump(world, world.shiftedMs);
    },
  },
];
