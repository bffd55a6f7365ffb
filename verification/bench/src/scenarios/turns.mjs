import {
  FLOOR,
  NATIVE_FLOOR,
  OURS,
  OURS_AWAITED,
  OURS_BY_NODE_REDIS,
  peers,
} from '../../contestants/index.mjs';
import { takeTurns } from '../measure/take-turns.mjs';
import { atLeast, atMost, best, least, most, noLimit, servesAll } from '../report/targets.mjs';
import { count, ms, ratio, whole } from '../report/format.mjs';

/** @param {string} server its name @param {'commands' | 'statements' | 'requests'} sent by clients */
export const columnsOf = (server, sent) => [
  { title: 'locks/s', of: ({ perSecond }) => whole(perSecond) },
  { title: 'least', of: ({ leastPerSecond }) => whole(leastPerSecond) },
  { title: 'turns', of: ({ turns }) => whole(turns) },
  { title: 'p50 wait', of: ({ p50Ms }) => ms(p50Ms) },
  { title: 'p99 wait', of: ({ p99Ms }) => ms(p99Ms) },
  { title: 'p99.9 wait', of: ({ p999Ms }) => ms(p999Ms) },
  { title: 'max wait', of: ({ maxMs }) => ms(maxMs) },
  { title: 'fairness', of: ({ jain }) => ratio(jain) },
  {
    title: sent,
    of: ({ commands, exact }) => `${exact || Number.isNaN(commands) ? '' : '~'}${count(commands)}`,
  },
  { title: `${server} CPU µs`, of: ({ serverUs }) => count(serverUs) },
  { title: 'client CPU µs', of: ({ clientUs }) => count(clientUs) },
  { title: 'failed', of: ({ failures }) => whole(failures) },
  { title: 'still waiting', of: ({ unfinished }) => whole(unfinished) },
];
const COLUMNS = columnsOf('Redis', 'commands');
export const IN_USE = { title: 'lock in use', of: ({ inUse }) => `${whole(inUse * 100)} %` };

/** @param {import('../measure/take-turns.mjs').Load} load @param {'url' | 'slowUrl'} [way] */
const turns =
  (load, way = 'url') =>
  (context, entrant) =>
    takeTurns(context, entrant, load, context[way]);

/** @param {{ perSecond: number }} ours @param {{ perSecond: number }} redisson RLock */
const timesRedisson = (ours, redisson) =>
  noLimit('withLock, times Redisson', ours.perSecond / redisson.perSecond);

const everybody = () => [FLOOR, OURS, OURS_AWAITED, ...peers()];
const thoseWhoWait = () => [OURS, ...peers()];
const byBothLibraries = () => [OURS, OURS_BY_NODE_REDIS, ...peers()];
/** Enough to compare with, where each lock leaves something behind. */
const FEW = ['redlock', 'redis-semaphore'];

export const serial = {
  id: 'serial',
  title: 'One caller, one key',
  entrants: () => [NATIVE_FLOOR, FLOOR, OURS, OURS_AWAITED, OURS_BY_NODE_REDIS, ...peers()],
  columns: COLUMNS,
  plot: { title: 'Locks per second', of: ({ perSecond }) => perSecond, show: whole },
  measure: turns({ processes: 1, callers: 1, keys: 'each' }),
  targets: ({ floor, ours, awaited, redisson }) => [
    atLeast('acquire + release, share of the floor', awaited.perSecond / floor.perSecond, 0.85),
    atLeast('withLock, times the floor', ours.perSecond / floor.perSecond, 1.2),
    atMost('Redis CPU, times the floor', awaited.serverUs / floor.serverUs, 1.4),
    atMost('client CPU, times the floor', awaited.clientUs / floor.clientUs, 1.5),
    atMost('commands for each lock', Math.max(ours.commands, awaited.commands), 2),
    timesRedisson(ours, redisson),
  ],
};

export const network = {
  id: 'network',
  title: 'One caller, 1 ms of network between',
  entrants: everybody,
  columns: COLUMNS,
  rounds: 1,
  plot: { title: 'Locks per second', of: ({ perSecond }) => perSecond, show: whole },
  measure: turns({ processes: 1, callers: 1, keys: 'each' }, 'slowUrl'),
  targets: ({ ours, others }) => [
    atLeast('withLock, times the best peer', ours.perSecond / most(others, 'perSecond'), 1),
  ],
};

export const spread = {
  id: 'spread',
  title: '64 callers, a key for each',
  entrants: everybody,
  columns: COLUMNS,
  plot: { title: 'Locks per second', of: ({ perSecond }) => perSecond, show: whole },
  measure: turns({ processes: 1, callers: 64, keys: 'each' }),
  targets: ({ floor, ours, awaited }) => [
    atLeast('acquire + release, share of the floor', awaited.perSecond / floor.perSecond, 0.75),
    atMost('Redis CPU, times the floor', awaited.serverUs / floor.serverUs, 1.4),
    atMost('client CPU, times the floor', awaited.clientUs / floor.clientUs, 1.5),
    atMost('commands for each lock', Math.max(ours.commands, awaited.commands), 2),
  ],
};

export const spreadNew = {
  id: 'spread-new',
  title: '64 callers, a new key for each lock',
  note: 'No key is asked for twice, so nothing that a process or a server remembers of a key is of use.',
  entrants: () => [FLOOR, OURS, OURS_AWAITED, ...peers().filter(({ id }) => FEW.includes(id))],
  columns: COLUMNS,
  plot: { title: 'Locks per second', of: ({ perSecond }) => perSecond, show: whole },
  measure: turns({ processes: 1, callers: 64, keys: 'new' }),
  targets: ({ floor, awaited }) => [
    noLimit('acquire + release, share of the floor', awaited.perSecond / floor.perSecond),
  ],
};

/** @param {number} leastTimes the best peer's throughput @param {number} leastJain */
const crowded = (leastTimes, leastJain) => ({
  entrants: thoseWhoWait,
  columns: COLUMNS,
  plot: { title: 'Longest wait of 99 in 100', of: ({ p99Ms }) => p99Ms, show: ms, scale: 'log' },
  targets: ({ ours, others, redisson }) => [
    atLeast('throughput, times the best peer', ours.perSecond / most(others, 'perSecond'), leastTimes),
    atMost('p99 wait, share of the p99 of that peer', ours.p99Ms / best(others, 'perSecond').p99Ms, 1 / 50),
    noLimit(
      'p99 wait, share of the shortest of a peer that serves all callers',
      ours.p99Ms / least(others.filter(servesAll), 'p99Ms'),
    ),
    atLeast('fairness (Jain)', ours.jain, leastJain),
    timesRedisson(ours, redisson),
  ],
});

export const hot1 = {
  ...crowded(15, 0.99),
  id: 'hot1',
  title: '100 callers of one process, one key',
  measure: turns({ processes: 1, callers: 100, keys: 'one' }),
};

const FOUR = { processes: 4, callers: 25, keys: 'one' };

export const hot4 = {
  ...crowded(25, 0.95),
  entrants: byBothLibraries,
  id: 'hot4',
  title: '4 processes × 25 callers, one key',
  measure: turns(FOUR),
};

/**
 * A peer that lets one caller take the lock again and again asks Redis for little. So its fairness stands beside its CPU, and
 * neither has a limit.
 */
const besideBusiest = (ours, busiest) => [
  noLimit(
    'Redis CPU for a lock, share of the peer that has the lock in use most',
    ours.serverUs / busiest.serverUs,
  ),
  noLimit('fairness (Jain) of that peer', busiest.jain),
];

/** @param {number} workMs */
const working = (workMs) => ({
  id: `hot4-${workMs}ms`,
  title: `4 processes × 25 callers, one key, ${workMs} ms of work under the lock`,
  entrants: thoseWhoWait,
  columns: [IN_USE, ...COLUMNS],
  rounds: 1,
  plot: {
    title: 'Share of the time that the lock is in use',
    of: ({ inUse }) => inUse * 100,
    show: (v) => `${whole(v)} %`,
  },
  measure: turns({ ...FOUR, workMs }),
  targets: ({ ours, others }) => [
    atLeast('share of the time that the lock is in use', ours.inUse, 0.85),
    noLimit('fairness (Jain)', ours.jain),
    ...besideBusiest(ours, best(others, 'inUse')),
    noLimit(
      'Redis CPU for a lock, share of the least of any peer',
      ours.serverUs / least(others, 'serverUs'),
    ),
  ],
});

export const hot4Work1 = { ...working(1), entrants: byBothLibraries };
/** This scenario has no target: the longer the work, the less the lock matters. */
export const hot4Work5 = { ...working(5), targets: () => [] };
