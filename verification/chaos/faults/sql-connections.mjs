import { setTimeout as pause } from 'node:timers/promises';
import { COMMAND_MS, INITIAL_LEASE_MS, LEASE_MS, LONG_LEASE_MS, LOOK_MS, SLACK_MS } from '../constants.mjs';
import { LATE_REQUESTS } from './connections.mjs';
import { replace } from './processes.mjs';

const AT_MOST_MS = 2000;
const BACK_MS = 1000 + SLACK_MS;

export const SQL_CONNECTION_FAULTS = [
  {
    name: 'crash-handoff',
    says: 'kill -9 of a holder in the moment in which it sends a statement, which arrives or not',
    traffic: { keys: 1 },
    recoverMs: LEASE_MS + INITIAL_LEASE_MS + SLACK_MS,
    after: replace,
    async inject(world) {
      const app = await world.holder();
      const arrives = world.random.chance(0.5);
      const links = world.store.networksOf(app.name).flatMap(({ open }) => open);
      await new Promise((resolve) => {
        const timer = setTimeout(resolve, AT_MOST_MS);
        for (const { requests } of links.filter((link) => link.carriesCommands)) {
          requests.loses = () => {
            clearTimeout(timer);
            resolve();
            return !arrives;
          };
        }
      });
      await app.kill();
      return { fault: { app: app.name } };
    },
  },
  {
    name: 'crash-first',
    says: 'kill -9 of the first in the queue: the one of two processes that does not hold',
    traffic: { apps: 2, keys: 1 },
    recoverMs: LEASE_MS + INITIAL_LEASE_MS + SLACK_MS,
    after: replace,
    async inject(world) {
      const holder = await world.holder();
      const first = world.victims.find((app) => app !== holder) ?? holder;
      await first.kill();
      return { fault: { app: first.name } };
    },
  },
  {
    ...LATE_REQUESTS,
    name: 'late-takes',
    says: `${LATE_REQUESTS.says}; callers pause, so that it finds locks free`,
    traffic: { leaseMs: LONG_LEASE_MS, callersPerKey: 1, pauseMs: 400 },
  },
  {
    name: 'half-open-one',
    says: 'one connection of a process swallows everything for good: that for statements, or that for notifications',
    traffic: { leaseMs: LONG_LEASE_MS },
    recoverMs: Math.max(COMMAND_MS + BACK_MS, LOOK_MS) + SLACK_MS,
    async inject({ random, store, victims }) {
      const open = store.networksOf(random.pick(victims).name).flatMap((network) => network.open);
      const isForStatements = random.chance(0.5);
      for (const link of open) if (link.carriesCommands === isForStatements) link.vanish();
      await pause(0);
    },
  },
];
