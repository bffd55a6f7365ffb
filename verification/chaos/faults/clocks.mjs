import { setTimeout as pause } from 'node:timers/promises';
import { LEASE_MS, LONG_LEASE_MS, LOOK_MS, SLACK_MS } from '../constants.mjs';
import { ClockShift, missingShift } from './clock-shift.mjs';

/** Jumps to a new time, and stays there for a while. */
async function jump({ store, random }, ms) {
  store.shift.set(ms);
  await pause(random.between(300, 1500));
}

export const REDIS_CLOCK_FAULTS = serverClockFaults('redis', {
  whose: "Redis'",
  forwardMs: 10 * LEASE_MS,
  forwardSays: 'ten leases',
});

export const SQL_CLOCK_FAULTS = serverClockFaults('server', {
  whose: "the server's",
  forwardMs: 3_600_000,
  forwardSays: 'an hour',
});

/** @returns {import('../index.d.mts').Kind[]} */
function serverClockFaults(name, { whose, forwardMs, forwardSays }) {
  return [
    {
      name: `clock-${name}-forward`,
      says: `${whose} time of day jumps forward by up to ${forwardSays}: locks expire early`,
      missing: missingShift,
      shift: () => new ClockShift(),
      losesData: true,
      recoverMs: LEASE_MS + LOOK_MS + SLACK_MS,
      async inject(world) {
        world.shiftedMs = (world.shiftedMs ?? 0) + world.random.between(0.3 * LEASE_MS, forwardMs);
        await jump(world, world.shiftedMs);
      },
    },
    {
      name: `clock-${name}-back`,
      says: `${whose} time of day jumps back by half a lease: what is held is held longer`,
      missing: missingShift,
      shift: () => new ClockShift(),
      stopsStore: true,
      recoverMs: 2 * LEASE_MS + LOOK_MS + SLACK_MS,
      async inject(world) {
        world.shiftedMs = (world.shiftedMs ?? 0) - world.random.between(0.1, 0.5) * LEASE_MS;
        await jump(world, world.shiftedMs);
      },
    },
    {
      name: `clock-${name}-far-back`,
      says: `${whose} time of day jumps back by up to an hour: whoever lives notices nothing`,
      missing: missingShift,
      shift: () => new ClockShift(),
      traffic: { leaseMs: LONG_LEASE_MS },
      recoverMs: LOOK_MS + SLACK_MS,
      async inject(world) {
        world.shiftedMs = (world.shiftedMs ?? 0) - world.random.between(60_000, 3_600_000);
        await jump(world, world.shiftedMs);
      },
    },
  ];
}
