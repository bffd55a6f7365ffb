import { median } from '../measure/statistics.mjs';
import { count, ms, whole } from './format.mjs';
import { best, least, servesAll } from './targets.mjs';

/** Peers that run in Node. */
const inNode = (rows) => rows.filter(({ id, figures }) => figures && !/^(ours|floor|redisson)\b/.test(id));

/**
 * The short page for a visitor: four figures, one picture, and where others are as fast. A figure whose scenario has not run
 * is left out.
 *
 * @param {any[]} results of runScenario on Redis
 * @returns {{ figures: string, asFast: string, compared: string, readme: ReturnType<typeof readmeFigures> | undefined }} Markdown, and the
 *   figures that the README repeats
 */
export function overview(results) {
  const rowsOf = (scenario) => results.find((result) => result.scenario.id === scenario)?.rows ?? [];
  const of = (scenario) => {
    const rows = rowsOf(scenario);
    const known = Object.fromEntries(rows.flatMap(({ id, figures }) => (figures ? [[id, figures]] : [])));
    const peers = inNode(rows).map(({ name, figures }) => ({ ...figures, name }));
    return known.ours && peers.length > 0 ? { ...known, peers } : undefined;
  };
  const [serial, hot, working, hop] = ['serial', 'hot4', 'hot4-1ms', 'hop'].map(of);
  return {
    readme: working && serial?.floor && hop ? readmeFigures({ serial, working, hop }) : undefined,
    compared: names(rowsOf('hot4').filter(({ id }) => !id.startsWith('ours'))),
    figures: [
      '| | This library | Compared with | Command |',
      '| --- | ---: | --- | --- |',
      ...(working ? [workFigure(working)] : []),
      ...(hot ? hotFigures(hot) : []),
      ...(hop?.floor ? [hopFigure(hop)] : []),
    ].join('\n'),
    asFast: [
      ...(serial?.floor ? [uncontended(serial)] : []),
      ...(working ? [withWork(working)] : []),
      ...(hop ? [shortHops(hop)] : []),
    ].join('\n'),
  };
}

/** What the README repeats: the same rows, in words of its own. */
function readmeFigures({ serial, working, hop }) {
  const rates = serial.peers.map(({ perSecond }) => perSecond);
  const own = (it) => ({ ms: ms(it.p99Ms), perSecond: whole(it.perSecond) });
  const hops = (it) => ({ ms: ms(it.p50Ms), perSecond: whole(it.perSecond) });
  const shortest = shortestWait(working.peers) ?? best(working.peers, 'inUse');
  const quickest = hop.peers.find(({ p50Ms }) => p50Ms === least(hop.peers, 'p50Ms')) ?? hop.peers[0];
  return {
    work: { ours: own(working.ours), other: { ...own(shortest), name: plain(shortest.name) } },
    serial: {
      ours: whole(serial['ours-awaited'].perSecond),
      least: whole(Math.min(...rates)),
      most: whole(Math.max(...rates)),
      median: whole(median(rates)),
    },
    hop: { ours: hops(hop.ours), other: { ...hops(quickest), name: plain(quickest.name) } },
  };
}

/** @param {string} name with its version */
const plain = (name) => name.replace(/ v?\d\S*$/, '');

const command = (only) => `\`npm run bench -- --only ${only}\``;
const names = (rows) => rows.map(({ name }) => name).join(', ');

/** @param {any[]} peers @returns {any} the one with the shortest p99 among those that serve all callers */
function shortestWait(peers) {
  const fit = peers.filter(servesAll);
  return fit.find(({ p99Ms }) => p99Ms === least(fit, 'p99Ms'));
}

function workFigure({ ours, peers }) {
  const shortest = shortestWait(peers);
  const other = shortest
    ? `${ms(shortest.p99Ms)} at ${whole(shortest.perSecond)} locks/s: ${shortest.name}, the shortest of the other Node libraries that refuse and starve no caller`
    : 'no other Node library that refuses and starves no caller';
  return `| **Longest wait** of 99 in 100 callers (p99) for a hot key with 1 ms of work under the lock: 100 callers in 4 processes | **${ms(ours.p99Ms)}** at ${whole(ours.perSecond)} locks/s | ${other} | ${command('hot4-1ms')} |`;
}

function hotFigures({ ours, peers }) {
  const fastest = best(peers, 'perSecond');
  const shortest = shortestWait(peers);
  const thriftiest = peers.find(({ commands }) => commands === least(peers, 'commands'));
  return [
    `| **Throughput on a hot key** without work: locks per second on one key that these callers ask for all the time | **${whole(ours.perSecond)}** | ${whole(fastest.perSecond)}: ${fastest.name}, the most of the other Node libraries | ${command('hot4')} |`,
    shortest &&
      `| **Longest wait** of 99 in 100 of these callers, without work | **${ms(ours.p99Ms)}** | ${ms(shortest.p99Ms)}: ${shortest.name}, the shortest of the other Node libraries that refuse and starve no caller | ${command('hot4')} |`,
    `| **Commands to Redis** for one of these locks | **${count(ours.commands)}** | ${count(thriftiest.commands)}: ${thriftiest.name}, the fewest of the other Node libraries. Where no other caller wants the lock, all send 2 or more | ${command('hot4')} |`,
  ].filter(Boolean);
}

const hopFigure = ({ ours, floor }) =>
  `| **Hand-off to another process:** median time from the release in one to the work in the other | **${ms(ours.p50Ms)}** | ${ms(floor.p50Ms)}: one bare \`PUBLISH\` of Redis from process to process | ${command('hop')} |`;

/** One caller sleeps between its requests, so a single run of a peer says little: the median of all of them stands for them. */
function uncontended({ ours, floor, peers, 'ours-awaited': awaited }) {
  const rates = peers.map(({ perSecond }) => perSecond);
  const range = `${whole(Math.min(...rates))} to ${whole(Math.max(...rates))}`;
  return `- **A lock that no other caller wants** is bound by the round trips to Redis, in every library. Here it is ${whole(awaited.perSecond)} locks/s, in the other Node libraries ${range} with a median of ${whole(median(rates))}, and with two bare commands ${whole(floor.perSecond)}. A lock is at least two commands: one acquires it, one releases it. \`withLock\` and \`@Locked\` reach ${whole(ours.perSecond)}, because they return the result of the work while the release is under way (${command('serial')}).`;
}

function withWork({ ours, peers }) {
  const busiest = best(peers, 'inUse');
  return `- **With 1 ms of work under a hot lock** the work decides the throughput: ${whole(ours.perSecond)} locks/s here, ${whole(busiest.perSecond)} with ${busiest.name}. What differs is who gets them. 99 in 100 callers wait at most ${ms(ours.p99Ms)} here, and ${ms(busiest.p99Ms)} there (${command('hot4-1ms')}).`;
}

function shortHops({ ours, peers, 'redisson-fair': fair }) {
  const all = fair ? [...peers, { ...fair, name: 'Redisson (Java), fair' }] : peers;
  const short = all.filter(({ p50Ms }) => p50Ms <= ours.p50Ms);
  const list = short
    .map(({ name, p50Ms, perSecond }) => `${name} (${ms(p50Ms)}, ${whole(perSecond)}/s)`)
    .join(', ');
  return short.length === 0
    ? `- **A hand-off:** no other library had a shorter median (${command('hop')}).`
    : `- **A hand-off** is as short or shorter with others, by the median. In parentheses stand the median and the hand-offs in a second: ${list}. Here: ${ms(ours.p50Ms)}, ${whole(ours.perSecond)}/s. A library with few hand-offs lets the same process take the lock again and again (${command('hop')}).`;
}
