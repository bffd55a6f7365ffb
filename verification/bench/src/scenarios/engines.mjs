import { OURS, OURS_AWAITED } from '../../contestants/index.mjs';
import { takeTurns } from '../measure/take-turns.mjs';
import { withWorkers } from '../measure/worker-process.mjs';
import { count, ratio, whole } from '../report/format.mjs';
import { atLeast, atMost, most, noLimit } from '../report/targets.mjs';
import { waitInCrowd } from './crowd.mjs';
import { holdLocks } from './hold.mjs';
import { bareRequests, handOffs, hop, TWICE_IN_A_ROW } from './hop.mjs';
import { columnsOf, hot4, hot4Work1, IN_USE, serial, spread, spreadNew } from './turns.mjs';

/** What a run of all stores has of one of them: the turns of ours and the floor, and those of the others. */
export const TURNS = {
  serial: [2, 1],
  spread: [1, 0],
  'spread-new': [1, 0],
  hot4: [2, 1],
  'hot4-1ms': [3, 1],
};
/** As `TURNS`, for several servers of one kind. */
export const FEW_TURNS = { serial: [2, 1], hot4: [2, 1], 'hot4-1ms': [2, 1] };
/** @param {{ id: string }} scenario */
export const FEW_SCENARIOS = ({ id }) => id in FEW_TURNS;

const RAW = 'the raw lock, which has no lease';
const HELD = 1000;
/** Each lock is renewed once in that time: a third of the lease of 30 s. */
const BEAT_MS = 10_000;

/** @typedef {import('../../contestants/index.mjs').Entrant} Entrant */

/**
 * The scenario compares the hand-off between two processes with this.
 *
 * @typedef {object} HopFloor
 * @property {Entrant} floor
 * @property {string} what it is, for the figures to reach
 * @property {boolean} [isBare] not a lock that is handed off, but one request of the floor
 */

/**
 * The figures to reach. One that is left out is shown without a limit.
 *
 * @typedef {object} Limits
 * @property {number} [awaited] least share of the floor of acquire + release
 * @property {number} [withLock] least times the floor
 * @property {number} [spread] least times the floor with 64 keys
 * @property {number} [hopTimesFloor] most times the floor
 * @property {number} [hopMs] longest median
 * @property {number} [timesPeer] least times the best peer on a hot key
 * @property {number} [timesCurator] least times Curator on a hot key
 * @property {number} [jain] least fairness between the processes on a hot key
 * @property {number} [fewest] least that one of 16 processes gets of a hot key, as a share of the mean; left out: not measured
 * @property {number} [perLock] most statements or requests for a lock that no other process wants
 * @property {number} [perWaitedKey] most statements or requests a second
 * @property {number} [perBeat] most statements or requests for one renewal of all 1 000 locks held
 * @property {number} [lostSwaps] largest share of the writes of a hot key; left out where the server does not count rows
 */

/**
 * The scenarios of Redis that say something about a lock on another engine, with the floor and the peers of that engine.
 *
 * @param {object} store
 * @param {string} store.server its name
 * @param {'statements' | 'requests' | 'commands'} [store.sent] by clients
 * @param {{ floor?: Entrant, hop?: HopFloor, peers: () => Entrant[] }} store.contestants
 * @param {Limits} store.limits
 */
export function engineScenarios({ server, sent = 'statements', contestants, limits }) {
  const { floor, hop: hopFloor, peers } = contestants;
  const columns = columnsOf(server, sent);
  const everybody = () => [...(floor ? [floor] : []), OURS, OURS_AWAITED, ...peers()];
  const all = () => [OURS, ...peers()];
  const perLock = ({ ours, awaited }) => most([ours, awaited], 'commands');
  return [
    {
      ...serial,
      columns,
      entrants: everybody,
      targets: ({ floor, ours, awaited }) => [
        limited(
          atLeast,
          'acquire + release, share of the floor',
          awaited.perSecond / floor.perSecond,
          limits.awaited,
        ),
        limited(atLeast, 'withLock, times the floor', ours.perSecond / floor.perSecond, limits.withLock),
        limited(atMost, `${sent} for each lock`, perLock({ ours, awaited }), limits.perLock),
      ],
    },
    {
      ...spread,
      note: 'The floor has 8 connections.',
      columns,
      entrants: everybody,
      targets: ({ floor, awaited }) => [
        limited(
          atLeast,
          'acquire + release, times the floor',
          awaited.perSecond / floor.perSecond,
          limits.spread,
        ),
      ],
    },
    {
      ...spreadNew,
      columns,
      entrants: everybody,
      targets: ({ floor, awaited }) => [
        noLimit('acquire + release, times the floor', awaited.perSecond / floor.perSecond),
      ],
    },
    {
      ...hot4,
      columns,
      entrants: all,
      targets: ({ ours, others, raw, curator }) => [
        limited(
          atLeast,
          'throughput, times the best peer',
          ours.perSecond / most(others, 'perSecond'),
          limits.timesPeer,
        ),
        limited(
          atLeast,
          'throughput, times Curator',
          ours.perSecond / curator.perSecond,
          limits.timesCurator,
        ),
        noLimit(`throughput, times ${RAW}`, ours.perSecond / raw.perSecond),
        limited(atLeast, 'fairness between processes (Jain)', ours.processJain, limits.jain),
      ],
    },
    {
      ...hot4Work1,
      columns: [IN_USE, ...columns],
      entrants: all,
      targets: ({ ours }) => [
        noLimit('share of the time that the lock is in use', ours.inUse),
        limited(atLeast, 'fairness between processes (Jain)', ours.processJain, limits.jain),
      ],
    },
    {
      ...hop,
      note: TWICE_IN_A_ROW,
      rounds: undefined,
      entrants: () => [...(hopFloor ? [hopFloor.floor] : []), ...all()],
      measure: (context, entrant) =>
        (entrant.id === 'floor' && hopFloor?.isBare ? bareRequests : handOffs)(context, entrant),
      targets: ({ floor, ours, raw }) => [
        limited(atMost, `median, times ${hopFloor?.what}`, ours.p50Ms / floor.p50Ms, limits.hopTimesFloor),
        limited(atMost, 'median, ms', ours.p50Ms, limits.hopMs),
        noLimit(`median, times ${RAW}`, ours.p50Ms / raw.p50Ms),
      ],
    },
    ...(limits.fewest === undefined ? [] : [hot16({ columns, limits })]),
    ...(limits.lostSwaps === undefined ? [] : [lostSwaps(limits.lostSwaps)]),
    {
      id: 'wait',
      title: 'Callers that wait for keys which another process holds',
      note: 'Ten callers wait for each key.',
      entrants: () => [waitingFor(1), waitingFor(1000)],
      columns: [
        { title: `${sent}/s`, of: ({ perSecond }) => count(perSecond) },
        { title: `${sent}/s for each key`, of: ({ perKey }) => count(perKey) },
        { title: 'Node, % of a core', of: ({ nodeShare }) => count(nodeShare * 100) },
      ],
      rounds: 1,
      measure: (context, entrant) =>
        waitInCrowd(context, entrant, { waiters: 10 * entrant.keys, keys: entrant.keys }),
      targets: ({ rows }) => [
        limited(
          atMost,
          `${sent}/s for each key`,
          most(
            rows.flatMap(({ figures }) => figures ?? []),
            'perKey',
          ),
          limits.perWaitedKey,
        ),
      ],
    },
    {
      id: 'hold',
      title: `${whole(HELD)} locks held`,
      note: `Measured over ${BEAT_MS / 1000} s, in which our watchdog renews each lock once. All locks are acquired at the same time.`,
      entrants: () => [OURS],
      columns: [
        { title: 'client, % of a core', of: ({ clientShare }) => count(clientShare * 100) },
        { title: `${server}, % of a core`, of: ({ serverShare }) => count(serverShare * 100) },
        { title: `${sent}/beat`, of: ({ perBeat }) => whole(perBeat) },
      ],
      async measure(context, entrant) {
        const figures = await holdLocks(context, entrant, HELD, BEAT_MS, HELD);
        return { ...figures, perBeat: Math.round((figures.perSecond * BEAT_MS) / 1000) };
      },
      targets: ({ ours }) => [
        limited(atMost, `${sent} for one renewal of all`, ours.perBeat, limits.perBeat),
      ],
    },
  ];
}

/** @param {{ columns: readonly object[], limits: Limits }} store */
const hot16 = ({ columns, limits }) => ({
  id: 'hot16',
  title: '16 processes, one key',
  note: 'One caller in each process.',
  entrants: () => [OURS],
  columns: [
    { title: 'fewest of a process, share of the mean', of: ({ fewest }) => ratio(fewest) },
    ...columns,
  ],
  measure: (context, entrant) => takeTurns(context, entrant, { processes: 16, callers: 1, keys: 'one' }),
  targets: ({ ours }) => [
    limited(atLeast, 'fairness between processes (Jain)', ours.processJain, limits.jain),
    limited(atLeast, 'fewest locks of a process, share of the mean', ours.fewest, limits.fewest),
  ],
});

/** @param {number} limit */
const lostSwaps = (limit) => ({
  id: 'swaps',
  title: '4 processes × 25 callers, one key: writes that another process had overtaken',
  note: 'A write is repeated if another process has written the document since it was read. Processes are not warmed up here.',
  entrants: () => [OURS],
  columns: [
    { title: 'writes', of: ({ attempts }) => whole(attempts) },
    { title: 'lost', of: ({ lost }) => whole(lost) },
    { title: 'share', of: ({ share }) => ratio(share) },
  ],
  async measure({ observer, url, ms }, { command }) {
    await observer.clear();
    await withWorkers({ command, count: 4, url }, (workers) => {
      const task = { callers: 25, keys: ['key'], ms, workMs: 0, graceMs: 500 };
      return Promise.all(workers.map((worker) => worker.ask('turns', task)));
    });
    const { attempts, written } = await observer.writes();
    return { attempts, lost: attempts - written, share: (attempts - written) / attempts };
  },
  targets: ({ ours }) => [atMost('share of the writes that were lost', ours.share, limit)],
});

/** @param {number} keys */
const waitingFor = (keys) => ({ ...OURS, id: `ours-${keys}`, name: `${whole(keys)} keys`, keys });

/** @param {typeof atMost} judge @param {string} claim @param {number} value @param {number} [limit] */
const limited = (judge, claim, value, limit) =>
  limit === undefined ? noLimit(claim, value) : judge(claim, value, limit);
